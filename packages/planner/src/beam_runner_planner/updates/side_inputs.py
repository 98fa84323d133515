"""Comparison of side inputs: which side input of the new pipeline continues one of the old pipeline.

The runner stores a side input for each reader, and deletes its data elsewhere. So a new reader of a
collection that has ended would read an empty side input without any error. Such a reader is refused.

In Python, the tag of a side input is its position among the arguments. Therefore the collection
finds the side input first, and the tag only decides between readers of one collection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
from beam_runner_model.buffers import SideInputUse
from beam_runner_model.updates import Finding, FindingReason, FindingSubject, FindingVerdict

from beam_runner_planner.updates.coders import CoderTree, compare_coders
from beam_runner_planner.updates.consents import UpdatePermissions
from beam_runner_planner.updates.matching import (
    MatchedPlans,
    find_step_of_output,
    translate_identity,
)
from beam_runner_planner.updates.strategies import (
    describe_windows,
    has_other_window_sizes,
    is_same_window_fn_kind,
)
from beam_runner_planner.updates.views import StageView


@attrs.frozen
class ComparedSideInput:
    """A step that reads a side input.

    Attributes:
        view: the stage.
        use: the side input in the plan.
    """

    view: StageView
    use: SideInputUse

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the stage, and the name of the side input in the stage."""
        return self.view.identity, self.use.name

    @property
    def collection(self) -> str:
        """The identity of the buffer that the side input reads."""
        return self.view.side_buffers[self.use.name]

    @property
    def kind(self) -> str:
        """The access pattern: ``iterable`` or ``multimap``."""
        return self.collection.partition(":")[0].removeprefix("side_")

    @property
    def source(self) -> str:
        """The full name of the step that makes the collection."""
        return find_step_of_output(self.collection)

    @property
    def coder(self) -> CoderTree:
        """The coder of the collection's elements."""
        transform = self.view.transforms[self.use.transform_id]
        return self.view.get_pcollection_coder(transform.inputs[self.use.tag])


@attrs.frozen
class SideInputFindings:
    """Findings about side inputs, and the pairs of old and new side inputs that correspond.

    Attributes:
        findings: the findings.
        pairs: by old side input, the new side input that continues it.
    """

    findings: tuple[Finding, ...]
    pairs: tuple[tuple[ComparedSideInput, ComparedSideInput], ...]


def compare_side_inputs(plans: MatchedPlans, consents: UpdatePermissions) -> SideInputFindings:
    """Returns the findings about all side inputs of two plans."""
    old, new = _list_side_inputs(plans.old), _list_side_inputs(plans.new)
    pairs = [*_match_collections(plans, old, new)]
    pairs += _match_renamed_sources(plans, old, new)
    findings: list[Finding] = []
    for before, after in pairs:
        findings += _compare_side_input_pair(before, after, consents)
    findings += [_describe_new_side_input(plans, side_input, consents) for side_input in new]
    findings += [
        Finding(
            FindingVerdict.DROPPED,
            FindingReason.REMOVED,
            FindingSubject.SIDE_INPUT,
            step=side_input.use.transform_id,
            part=side_input.use.tag,
            before=side_input.source,
        )
        for side_input in old
    ]
    return SideInputFindings(tuple(findings), tuple(pairs))


def _list_side_inputs(views: Mapping[str, StageView]) -> list[ComparedSideInput]:
    return [
        ComparedSideInput(view, use) for view in views.values() for use in view.plan.side_inputs
    ]


def _match_collections(
    plans: MatchedPlans, old: list[ComparedSideInput], new: list[ComparedSideInput]
) -> Iterator[tuple[ComparedSideInput, ComparedSideInput]]:
    """Yields the pairs of old and new side inputs with the same reader and collection, and removes
    these side inputs from the lists.
    """
    by_reader: dict[tuple[str | None, str], list[ComparedSideInput]] = {}
    for after in new:
        by_reader.setdefault((after.use.transform_id, after.collection), []).append(after)
    for before in list(old):
        reader = plans.names.translate_step(before.use.transform_id)
        collection = translate_identity(before.collection, plans.names)
        if found := by_reader.get((reader, collection)):
            after = found.pop(0)
            old.remove(before)
            new.remove(after)
            yield before, after


def _match_renamed_sources(
    plans: MatchedPlans, old: list[ComparedSideInput], new: list[ComparedSideInput]
) -> Iterator[tuple[ComparedSideInput, ComparedSideInput]]:
    """Yields the pairs with the same reader and tag, if the step between the reader and a stage that
    the update keeps has another name. Removes them from the lists.
    """
    translated = {
        plans.names.translate_step(step) for view in plans.old.values() for step in view.steps
    }
    for before in list(old):
        if plans.names.translate_step(before.source) is not None:
            continue
        reader = plans.names.translate_step(before.use.transform_id)
        for after in new:
            same = (reader, before.use.tag) == (after.use.transform_id, after.use.tag)
            writers = plans.writers.get(after.collection, ())
            continued = any(writer in plans.continued_stages for writer in writers)
            if same and continued and before.kind == after.kind and after.source not in translated:
                old.remove(before)
                new.remove(after)
                yield before, after
                break


def _compare_side_input_pair(
    before: ComparedSideInput, after: ComparedSideInput, consents: UpdatePermissions
) -> Iterator[Finding]:
    step, part = after.use.transform_id, after.use.tag
    steps = (before.use.transform_id, step)
    change = compare_coders(before.coder, after.coder)
    if change is not None:
        agreed = consents.are_coders_trusted(steps, part)
        finding = Finding(
            FindingVerdict.KEPT if agreed else FindingVerdict.REFUSED,
            FindingReason.CODER,
            FindingSubject.SIDE_INPUT,
            step=step,
            part=part,
            before=change.before,
            after=change.after,
            agreed=agreed,
        )
        if change.is_readable:
            finding = attrs.evolve(
                finding,
                verdict=FindingVerdict.KEPT,
                reason=FindingReason.FIELDS_ADDED,
                before="",
                agreed=False,
            )
        yield finding
    windows = (before.use.mapping_fn, after.use.mapping_fn)
    same = is_same_window_fn_kind(*windows)
    if not same or has_other_window_sizes(*windows):
        yield Finding(
            FindingVerdict.KEPT if same else FindingVerdict.REFUSED,
            FindingReason.WINDOW_SIZE if same else FindingReason.WINDOW_KIND,
            FindingSubject.SIDE_INPUT,
            step=step,
            part=part,
            before=describe_windows(windows[0]),
            after=describe_windows(windows[1]),
        )


def _describe_new_side_input(
    plans: MatchedPlans, after: ComparedSideInput, consents: UpdatePermissions
) -> Finding:
    """Returns the finding about a new side input that doesn't continue a side input of the old pipeline."""
    step, part = after.use.transform_id, after.use.tag
    finding = Finding(
        FindingVerdict.NEW,
        FindingReason.ADDED,
        FindingSubject.SIDE_INPUT,
        step=step,
        part=part,
        after=after.source,
    )
    writers = plans.writers.get(after.collection, ())
    if writers and plans.stages_without_input.issuperset(writers):
        return attrs.evolve(
            finding, verdict=FindingVerdict.REFUSED, reason=FindingReason.INPUT_ENDED
        )
    if any(writer in plans.continued_stages for writer in writers):
        agreed = consents.may_drop_data((step,), part)
        verdict = FindingVerdict.NEW if agreed else FindingVerdict.REFUSED
        return attrs.evolve(
            finding, verdict=verdict, reason=FindingReason.INPUT_STARTED, agreed=agreed
        )
    return finding
