"""Findings about stages that are in one plan only, or have ended."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from beam_runner_model.updates import Finding, FindingReason, FindingSubject, FindingVerdict

from beam_runner_planner.updates.coders import compare_coders
from beam_runner_planner.updates.consents import UpdatePermissions
from beam_runner_planner.updates.matching import MatchedPlans
from beam_runner_planner.updates.pairs import StagePair
from beam_runner_planner.updates.views import StageView

_LIFTED = frozenset({"group", "lifted"})


def get_finding_subject(view: StageView) -> FindingSubject:
    """Returns the kind of part that a report calls a stage: a step or a source."""
    return FindingSubject.SOURCE if view.is_source else FindingSubject.STEP


def describe_new_stage(
    plans: MatchedPlans, view: StageView, consents: UpdatePermissions
) -> Finding:
    """Returns the finding about a stage that continues no stage of the running job."""
    if consents.is_rollback and view.is_source:
        agreed = consents.may_drop_data((view.step,))
        verdict = FindingVerdict.NEW if agreed else FindingVerdict.REFUSED
        return Finding(
            verdict, FindingReason.RAN_BEFORE, FindingSubject.SOURCE, step=view.step, agreed=agreed
        )
    is_ended = view.identity in plans.stages_without_input
    reason = FindingReason.INPUT_ENDED if is_ended else FindingReason.ADDED
    return Finding(FindingVerdict.NEW, reason, get_finding_subject(view), step=view.step)


def find_input_after_end(plans: MatchedPlans, pair: StagePair) -> Iterator[Finding]:
    """Yields a finding if a stage has already processed its complete input, but gets more input in
    the new plan.
    """
    writers = plans.list_input_writers(pair.new)
    if pair.contents.complete and not plans.stages_without_input.issuperset(writers):
        yield Finding(FindingVerdict.REFUSED, FindingReason.HAS_ENDED, step=pair.new.step)


def find_removed_stages(plans: MatchedPlans, consents: UpdatePermissions) -> Iterator[Finding]:
    """Yields a finding for each stage of the running job that no new stage continues."""
    for identity, view in plans.old.items():
        if identity not in plans.stages:
            yield _describe_removed_stage(plans, view, consents)


def _describe_removed_stage(
    plans: MatchedPlans, view: StageView, consents: UpdatePermissions
) -> Finding:
    contents = plans.get_stage_data(view.identity)
    finding = Finding(
        FindingVerdict.DROPPED,
        FindingReason.REMOVED,
        get_finding_subject(view),
        step=view.step,
        elements=contents.elements,
        state_bytes=contents.state_bytes,
    )
    step = plans.names.translate_step(view.step)
    kinds = {one.kind for one in plans.new.values() if one.step == step} | {view.kind}
    if kinds == _LIFTED:
        finding = attrs.evolve(finding, reason=FindingReason.LIFTING)
    if contents.is_empty:
        return finding
    if consents.may_drop_data((view.step,)):
        return attrs.evolve(finding, agreed=True)
    return attrs.evolve(
        finding,
        verdict=FindingVerdict.REFUSED,
        after="" if kinds == _LIFTED else _suggest_step(plans, view),
        passes=not contents.has_state and not view.plan.splittable,
    )


def _suggest_step(plans: MatchedPlans, view: StageView) -> str:
    """Returns the only new step that can continue with the data of a removed step; empty if no or several steps can."""
    found = [
        other.step
        for identity, other in plans.new.items()
        if identity not in plans.continued_stages
        and other.step != view.step
        and _is_same_stage_kind(view, other)
    ]
    return found[0] if len(found) == 1 else ""


def _is_same_stage_kind(old: StageView, new: StageView) -> bool:
    if old.kind != new.kind or old.is_source or old.plan.splittable != new.plan.splittable:
        return False
    if compare_coders(old.element_coder, new.element_coder) is not None:
        return False
    declared = [
        (stateful.states, stateful.timers) if (stateful := view.plan.stateful) else None
        for view in (old, new)
    ]
    return declared[0] == declared[1]
