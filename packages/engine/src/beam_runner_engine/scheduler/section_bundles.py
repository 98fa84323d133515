"""Lifecycle of a section (stages that can run as one bundle): the section waits for its complete
input, and then runs as one bundle or as separate stages.
"""

from __future__ import annotations

from collections.abc import Iterable

from beam_runner_model.facts import DataStatistics
from beam_runner_model.times import MAX_TIMESTAMP

from beam_runner_engine.scheduler.attempts import build_bundle_inputs
from beam_runner_engine.scheduler.bundles import deliver_outputs, resume_throttled_producers
from beam_runner_engine.scheduler.commands import (
    Bundle,
    FinalizeBundles,
    OpenBundles,
    SectionStageInput,
)
from beam_runner_engine.scheduler.delivery import queue_pending_work, remove_pending_work
from beam_runner_engine.scheduler.errors import HostCodeError
from beam_runner_engine.scheduler.events import BundleDone, SectionRefused
from beam_runner_engine.scheduler.policy import SectionStatistics
from beam_runner_engine.scheduler.side_inputs import (
    create_all_side_input_views,
    create_side_input_views,
    release_side_input_views,
)
from beam_runner_engine.scheduler.state import (
    BundleRecord,
    SchedulerState,
    SectionPhase,
    SectionStageRecord,
    SectionState,
    StageState,
    Work,
)
from beam_runner_engine.scheduler.transitions import Phase

_POLICY = "the policy for a section"


def open_or_refuse_section(state: SchedulerState, number: int) -> None:
    """Opens the bundle of a section (several stages that run as one bundle) when its complete input is
    available. If the policy refuses the section, its stages run separately.
    """
    section = state.sections[number]
    if section.phase is not SectionPhase.WAITING or not _has_complete_input(state, section):
        return
    if _should_open_section(state, section):
        section.phase = SectionPhase.OPEN
        _open_section(state, number, section)
    else:
        _release_section_stages(state, section)


def is_held_by_section(state: SchedulerState, stage: StageState) -> bool:
    """Returns whether the stage must not open separate bundles because its section (stages that run
    as one bundle) waits, runs or is done.
    """
    if stage.section is None:
        return False
    return state.sections[stage.section].phase is not SectionPhase.APART


def commit_section(state: SchedulerState, event: BundleDone) -> None:
    """Closes the committed bundle of a section (stages that ran as one bundle), and delivers the
    outputs of the bundle.
    """
    record = _close_section(state, event.bundle, SectionPhase.DONE)
    deliver_outputs(state, event)
    for part in record.parts:
        stage = state.stages[part.stage]
        for work in part.work:
            remove_pending_work(state, stage, work)
        resume_throttled_producers(state, stage)
    if event.finalize:
        state.commands.append(FinalizeBundles((event.bundle,)))


def refuse_section(state: SchedulerState, event: SectionRefused) -> None:
    """Returns the input of a section to the section's stages after the caller refused to run them
    as one bundle. The stages then run in separate bundles.
    """
    record = _close_section(state, event.bundle, SectionPhase.APART)
    for part in record.parts:
        for work in part.work:
            queue_pending_work(state, state.stages[part.stage], work)


def _has_complete_input(state: SchedulerState, section: SectionState) -> bool:
    heads = (state.stages[number] for number in section.node.heads)
    if any(head.seen_upstream < MAX_TIMESTAMP for head in heads):
        return False
    sides = (side for number in section.node.stages for side in state.stages[number].sides)
    return all(state.collections[side.spec.collection].watermark == MAX_TIMESTAMP for side in sides)


def _should_open_section(state: SchedulerState, section: SectionState) -> bool:
    heads = [state.stages[number] for number in section.node.heads]
    ready = [(head, items[0].data.facts) for head in heads for items in _list_queued_work(head)]
    if not ready or state.phase is Phase.DRAINING:
        return False
    stages = tuple(state.stages[number].spec.name for number in section.node.stages)
    asked = SectionStatistics(
        stages=stages,
        count=sum(facts.count for _, facts in ready),
        size=sum(facts.size for _, facts in ready),
        work=_compute_section_work(state, ready),
        exchanges=len(section.node.inner),
        parallelism=state.limits.parallelism,
    )
    try:
        return bool(state.section_policy.should_open_section(asked))
    except Exception as error:
        raise HostCodeError(stages[0], _POLICY, f"failed with the error {error!r}") from error


def _compute_section_work(
    state: SchedulerState, ready: Iterable[tuple[StageState, DataStatistics]]
) -> int | None:
    """Returns the estimated number of bytes that a section must process, or None if the number is
    unknown.

    The number exceeds the size of the input if the input contains restrictions, which represent
    more bytes.
    """
    roots = set(state.graph.roots)
    work = 0
    for head, facts in ready:
        of_root = not roots.isdisjoint(head.spec.inputs)
        told = facts.work if head.spec.splittable else None if of_root else facts.size
        if told is None:
            return None
        work += told
    return work


def _release_section_stages(state: SchedulerState, section: SectionState) -> None:
    section.phase = SectionPhase.APART
    for number in section.node.stages:
        state.touched[number] = None


def _open_section(state: SchedulerState, number: int, section: SectionState) -> None:
    parts, records = [], []
    for member in section.node.stages:
        stage = state.stages[member]
        work = _take_queued_work(stage)
        begins = member in section.node.heads
        side_inputs, views = (
            create_side_input_views(state, stage, work)
            if begins
            else create_all_side_input_views(state, stage)
        )
        inputs = tuple(build_bundle_inputs(work, truncate=False))
        parts.append(SectionStageInput(stage.spec.name, inputs, side_inputs, stage.input))
        records.append(SectionStageRecord(member, work, views))
        stage.open += 1
        stage.running += len(work)
        stage.waiting_bytes -= sum(item.data.facts.size for item in work)
    first = state.stages[section.node.stages[0]]
    bundle = Bundle(
        number=state.next_bundle,
        attempt=1,
        stage=first.spec.name,
        shard=None,
        inputs=(),
        side_inputs=(),
        input_watermark=first.input,
        end_watermark=MAX_TIMESTAMP,
        output_watermark=first.output,
        processing_time=state.now,
        parts=tuple(parts),
    )
    state.next_bundle += 1
    state.bundles[bundle.number] = BundleRecord(
        bundle=bundle,
        stage=first.number,
        work=[],
        views=[],
        truncated=False,
        section=number,
        parts=records,
    )
    state.commands.append(OpenBundles(bundle.stage, (bundle,)))


def _close_section(state: SchedulerState, bundle: int, phase: SectionPhase) -> BundleRecord:
    record = state.bundles.pop(bundle)
    assert record.section is not None
    state.sections[record.section].phase = phase
    for part in record.parts:
        stage = state.stages[part.stage]
        stage.open -= 1
        stage.running -= len(part.work)
        release_side_input_views(state, part.views)
        state.touched[part.stage] = None
    return record


def _list_queued_work(stage: StageState) -> list[list[Work]]:
    """Returns the queued work of all shards of a stage, grouped by input data."""
    return [items for shard in stage.shards.values() for items in shard.ready.values()]


def _take_queued_work(stage: StageState) -> list[Work]:
    work = [item for items in _list_queued_work(stage) for item in items]
    for shard in stage.shards.values():
        shard.ready.clear()
    stage.candidates.clear()
    return work
