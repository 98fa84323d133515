"""Reports about a job: watermarks and backlog of each stage, failed bundles, and waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
from beam_runner_model.times import MAX_TIMESTAMP, Timestamp
from beam_runner_model.waits import Wait, WaitKind

from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import BundleFailed
from beam_runner_engine.scheduler.state import (
    BundleRecord,
    SchedulerState,
    SectionPhase,
    StageState,
)
from beam_runner_engine.scheduler.wakeups import get_event_time_wake_up


@attrs.frozen
class StageReport:
    """Watermarks and backlog of a stage.

    Attributes:
        stage: the name of the stage.
        upstream_watermark: the earliest watermark (ms) of the input collections.
        input_watermark: the input watermark (ms).
        output_watermark: the output watermark (ms).
        waiting: the number of pending work items that are not in a bundle and not delayed.
        waiting_bytes: the size of the pending work in bytes.
        blocked: the number of pending work items that wait for side inputs.
        delayed: the number of residuals that wait for a processing time.
        open_bundles: the number of running bundles.
        complete: whether the stage has finished.
        paused: the number of open bundles that wait for their next attempt.
    """

    stage: str
    upstream_watermark: Timestamp
    input_watermark: Timestamp
    output_watermark: Timestamp
    waiting: int
    waiting_bytes: int
    blocked: int
    delayed: int
    open_bundles: int
    complete: bool
    paused: int = 0


@attrs.frozen
class RetryReport:
    """Report about an open bundle with at least one failed attempt.

    Attributes:
        bundle: the bundle, at the latest attempt.
        attempts: the number of failed attempts. Failures because of an unavailable external system
            don't count.
        last: the latest failure.
        due: the processing time (ms) at which the next attempt starts; None if the next attempt is
            running.
        outage_since: the processing time (ms) at which the current outage started; None without an
            outage.
    """

    bundle: Bundle
    attempts: int
    last: BundleFailed
    due: Timestamp | None
    outage_since: Timestamp | None


def create_stage_report(stage: StageState) -> StageReport:
    """Returns a report about a stage, at constant cost."""
    return StageReport(
        stage=stage.spec.name,
        upstream_watermark=stage.seen_upstream,
        input_watermark=stage.input,
        output_watermark=stage.output,
        waiting=stage.work - stage.running - len(stage.delayed),
        waiting_bytes=stage.waiting_bytes,
        blocked=stage.blocked,
        delayed=len(stage.delayed),
        open_bundles=stage.open - stage.paused,
        complete=stage.complete,
        paused=stage.paused,
    )


def list_retried_bundles(records: Iterable[BundleRecord]) -> tuple[RetryReport, ...]:
    """Returns a report about each bundle with failed attempts."""
    return tuple(
        RetryReport(
            record.bundle,
            record.failures.attempts,
            record.failures.last,
            record.due,
            record.failures.outage_since,
        )
        for record in records
        if record.failures.last is not None
    )


def list_wait_reasons(state: SchedulerState) -> tuple[Wait, ...]:
    """Returns the waits of every incomplete stage, in graph order."""
    return tuple(
        wait
        for stage in state.stages
        if not stage.complete
        for wait in _find_wait_reasons(state, stage)
    )


def _find_wait_reasons(state: SchedulerState, stage: StageState) -> Iterator[Wait]:
    found = (
        *_find_bundle_wait_reasons(stage),
        *_find_side_input_wait_reasons(state, stage),
        *_find_input_wait_reasons(state, stage),
        *_find_shard_wait_reasons(stage),
    )
    yield from found
    if not found and stage.seen_upstream < MAX_TIMESTAMP:
        for collection in stage.spec.inputs:
            watermark = state.collections[collection].watermark
            if watermark < MAX_TIMESTAMP:
                yield Wait(
                    WaitKind.UPSTREAM,
                    stage.spec.name,
                    collection=collection,
                    watermark=watermark,
                )


def _find_bundle_wait_reasons(stage: StageState) -> Iterator[Wait]:
    for kind, count in (
        (WaitKind.BUNDLES, stage.open - stage.paused),
        (WaitKind.RETRY, stage.paused),
        (WaitKind.RESUMPTION, len(stage.delayed)),
    ):
        if count:
            yield Wait(kind, stage.spec.name, count=count)


def _find_side_input_wait_reasons(state: SchedulerState, stage: StageState) -> Iterator[Wait]:
    for side in stage.sides:
        for window, waiting in side.waiting.items():
            yield Wait(
                WaitKind.SIDE_INPUT,
                stage.spec.name,
                count=len(waiting),
                side_input=side.spec.name,
                window="" if window is None else str(window),
                collection=side.spec.collection,
                watermark=state.collections[side.spec.collection].watermark,
            )


def _find_input_wait_reasons(state: SchedulerState, stage: StageState) -> Iterator[Wait]:
    name = stage.spec.name
    ready = any(shard.ready for shard in stage.shards.values())
    if stage.spec.whole_input and ready and stage.seen_upstream < MAX_TIMESTAMP:
        yield Wait(WaitKind.END_OF_INPUT, name, watermark=stage.seen_upstream)
    elif ready and stage.section is not None:
        section = state.sections[stage.section]
        if section.phase is SectionPhase.WAITING:
            stages = (state.stages[number].spec.name for number in section.node.stages)
            yield Wait(WaitKind.END_OF_SECTION_INPUT, name, givers=tuple(stages))


def _find_shard_wait_reasons(stage: StageState) -> Iterator[Wait]:
    name = stage.spec.name
    for key, shard in stage.shards.items():
        summary, wake = shard.summary, get_event_time_wake_up(shard.summary)
        clock, hold = summary.next_processing_timer, summary.min_hold
        if shard.open:
            continue
        if clock is not None:
            yield Wait(WaitKind.TIMER, name, shard=key, until=clock)
        if wake is not None:
            watermark = stage.seen_upstream
            yield Wait(WaitKind.WATERMARK, name, shard=key, until=wake, watermark=watermark)
        if clock is None and wake is None and hold is not None:
            yield Wait(WaitKind.HOLD, name, shard=key, until=hold)
