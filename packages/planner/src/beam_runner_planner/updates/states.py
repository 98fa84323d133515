"""Comparison of the states and timers of a stateful step that an update keeps."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from beam_runner_engine.keyed.state import (
    BagState,
    CombiningState,
    MultimapState,
    OrderedListState,
    State,
    ValueState,
)
from beam_runner_engine.keyed.timers import TimeDomain
from beam_runner_model.updates import Finding, FindingReason, FindingSubject, FindingVerdict

from beam_runner_planner import _protos
from beam_runner_planner.plan import StatefulPlan
from beam_runner_planner.updates.coders import CoderTree
from beam_runner_planner.updates.consents import format_part_name
from beam_runner_planner.updates.pairs import StagePair
from beam_runner_planner.updates.views import StageView

_NAMES: dict[type[State], str] = {
    BagState: "bag",
    CombiningState: "combining",
    MultimapState: "map or set",
    OrderedListState: "ordered list",
    ValueState: "value",
}
_DOMAINS = {TimeDomain.EVENT_TIME: "event time", TimeDomain.PROCESSING_TIME: "processing time"}


@attrs.frozen
class StateFindings:
    """Findings about the states and timers of a step.

    Attributes:
        findings: the findings, in the order of the declarations.
        dropped_states: the states whose data the new step doesn't read.
        dropped_timers: the timer families that the new step doesn't declare.
    """

    findings: tuple[Finding, ...] = ()
    dropped_states: frozenset[str] = frozenset()
    dropped_timers: frozenset[str] = frozenset()


def compare_states(pair: StagePair) -> StateFindings:
    """Returns the findings about the states and timers of a pair of stages."""
    old, new = pair.old.plan.stateful, pair.new.plan.stateful
    if old is None or new is None:
        return StateFindings()
    states = [*_compare_all_states(pair, old, new)]
    timers = [*_compare_all_timers(pair, old, new)]
    sorting = []
    if old.time_sorted != new.time_sorted:
        sorting.append(
            pair.create_change_finding(FindingReason.TIME_SORTED, has_data=pair.contents.has_state)
        )
    dropped = {finding.part for finding in states if finding.verdict is FindingVerdict.DROPPED}
    return StateFindings(
        (*sorting, *states, *timers),
        frozenset(dropped),
        frozenset(old.timers.keys() - new.timers.keys()),
    )


def _compare_all_states(pair: StagePair, old: StatefulPlan, new: StatefulPlan) -> Iterator[Finding]:
    old_coders, new_coders = _map_states_to_coders(pair.old), _map_states_to_coders(pair.new)
    for name, kind in sorted(new.states.items()):
        before = old.states.get(name)
        if before is None:
            yield _create_added_finding(pair, FindingSubject.STATE, name)
        elif before is not kind:
            yield _replace_by_permitted_drop(
                pair,
                pair.create_change_finding(
                    FindingReason.KIND,
                    FindingSubject.STATE,
                    has_data=pair.contents.has_state,
                    part=name,
                    before=_NAMES.get(before, before.__name__),
                    after=_NAMES.get(kind, kind.__name__),
                ),
            )
        else:
            for finding in _compare_state_coders(
                pair, name, old_coders.get(name, {}), new_coders.get(name, {})
            ):
                yield _replace_by_permitted_drop(pair, finding)
    for name in sorted(old.states.keys() - new.states.keys()):
        yield _create_removed_finding(pair, FindingSubject.STATE, name)


def _compare_state_coders(
    pair: StagePair, name: str, old: dict[str, CoderTree], new: dict[str, CoderTree]
) -> Iterator[Finding]:
    for role in sorted(old.keys() & new.keys()):
        yield from pair.compare_part_coders(
            old[role],
            new[role],
            has_data=pair.contents.has_state,
            # A map state looks up keys by their encodings, so the coders of keys must be equal.
            reason=FindingReason.KEY_CODER if role == "key_coder_id" else FindingReason.CODER,
            subject=FindingSubject.STATE,
            part=name,
        )


def _compare_all_timers(pair: StagePair, old: StatefulPlan, new: StatefulPlan) -> Iterator[Finding]:
    for name, domain in sorted(new.timers.items()):
        before = old.timers.get(name)
        if before is None:
            yield _create_added_finding(pair, FindingSubject.TIMER, name)
        elif before is not domain:
            yield pair.create_change_finding(
                FindingReason.KIND,
                FindingSubject.TIMER,
                has_data=pair.contents.has_state,
                part=format_part_name(name),
                before=_DOMAINS[before],
                after=_DOMAINS[domain],
            )
    for name in sorted(old.timers.keys() - new.timers.keys()):
        yield _create_removed_finding(pair, FindingSubject.TIMER, name)


def _create_added_finding(pair: StagePair, subject: FindingSubject, name: str) -> Finding:
    return Finding(
        FindingVerdict.NEW,
        FindingReason.ADDED,
        subject,
        step=pair.new.step,
        part=_get_part_name(subject, name),
    )


def _create_removed_finding(pair: StagePair, subject: FindingSubject, name: str) -> Finding:
    finding = Finding(
        FindingVerdict.DROPPED,
        FindingReason.REMOVED,
        subject,
        step=pair.new.step,
        part=_get_part_name(subject, name),
    )
    if not pair.contents.has_state:
        return finding
    finding = attrs.evolve(finding, state_bytes=pair.contents.state_bytes)
    return _replace_by_permitted_drop(pair, attrs.evolve(finding, verdict=FindingVerdict.REFUSED))


def _replace_by_permitted_drop(pair: StagePair, finding: Finding) -> Finding:
    """Returns the finding, or a drop of the data if the finding refuses the update and the user permits the drop."""
    agreed = pair.consents.may_drop_data(pair.steps, finding.part)
    if finding.verdict is not FindingVerdict.REFUSED or not agreed:
        return finding
    return attrs.evolve(
        finding, verdict=FindingVerdict.DROPPED, agreed=True, elements=0, passes=False
    )


def _get_part_name(subject: FindingSubject, name: str) -> str:
    return format_part_name(name) if subject is FindingSubject.TIMER else name


def _map_states_to_coders(view: StageView) -> dict[str, dict[str, CoderTree]]:
    """Returns the coders of each state by role, such as the key coder or the value coder of a map
    state.
    """
    assert view.plan.stateful is not None
    transform = view.transforms[view.plan.stateful.transform_id]
    payload = _protos.ParDoPayload.FromString(transform.spec.payload)
    coders: dict[str, dict[str, CoderTree]] = {}
    for name, spec in payload.state_specs.items():
        kind = spec.WhichOneof("spec")
        fields = getattr(spec, kind).ListFields() if kind is not None else ()
        coders[name] = {
            field.name: view.coder(value)
            for field, value in fields
            if field.name.endswith("coder_id")
        }
    return coders
