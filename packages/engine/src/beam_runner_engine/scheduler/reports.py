"""What a job is at, for those who ask: watermarks and backlog of each stage, and who waits for
what.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import BundleFailed
from beam_runner_engine.scheduler.state import (
    BundleRecord,
    SchedulerState,
    SectionPhase,
    StageState,
)
from beam_runner_engine.scheduler.wakeups import event_wake

_MOST_TOLD = 8


@attrs.frozen
class StageReport:
    """A stage's watermarks (ms) and how much it has to do.

    `waiting` pieces of work of `waiting_bytes` are not in a bundle, `blocked` of them for want of
    side inputs and `delayed` more until a processing time; `open_bundles` are running, and `paused` are
    open, too, and wait for another attempt.
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
class Retry:
    """An open bundle of which an attempt failed.

    Attributes:
        bundle: the bundle, at the latest attempt.
        attempts: the number of failed attempts; an attempt that found a neighbour unavailable isn't one.
        last: the latest failure.
        due: the processing time (ms) at which the next attempt begins; None if it runs.
        outage_since: the processing time (ms) since which a neighbour is unavailable; None if none is.
    """

    bundle: Bundle
    attempts: int
    last: BundleFailed
    due: Timestamp | None
    outage_since: Timestamp | None


class WaitFor(enum.Enum):
    """What a stage waits for."""

    BUNDLES = "its bundles"
    RETRY = "another attempt at a bundle"
    SIDE_INPUT = "a side input"
    END_OF_INPUT = "the end of its input"
    HOLD = "a hold to be let go"
    WATERMARK = "its watermark"
    PROCESSING_TIME = "processing time"
    UPSTREAM = "the stages before it"


@attrs.frozen
class Wait:
    """Why a stage is not complete; `why` is a sentence without its subject, the stage, and without a
    full stop, and `side_input` names the side input that is waited for, if one is.
    """

    stage: str
    what: WaitFor
    why: str
    side_input: str = ""


def report(stage: StageState) -> StageReport:
    """Returns what a stage is at, at constant cost."""
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


def retries(records: Iterable[BundleRecord]) -> tuple[Retry, ...]:
    """Returns those bundles of which an attempt failed."""
    return tuple(
        Retry(
            record.bundle,
            record.failures.attempts,
            record.failures.last,
            record.due,
            record.failures.outage_since,
        )
        for record in records
        if record.failures.last is not None
    )


def waits(state: SchedulerState) -> tuple[Wait, ...]:
    """Returns what every incomplete stage waits for, in the order of the graph."""
    return tuple(
        wait for stage in state.stages if not stage.complete for wait in _waits_of(state, stage)
    )


def describe_waits(
    found: Sequence[Wait], name_of: Callable[[str], str] = "stage {!r}".format
) -> str:
    """Tells in one sentence who waits for what, the causes without their consequences.

    `name_of` gives the words for a stage by its name.
    """
    causes = [wait for wait in found if wait.what is not WaitFor.UPSTREAM] or list(found)
    told = [f"{name_of(wait.stage)} {wait.why}" for wait in causes[:_MOST_TOLD]]
    if len(causes) > _MOST_TOLD:
        told.append(f"{len(causes) - _MOST_TOLD} more like these")
    return "; ".join(told)


def tell_time(time: Timestamp) -> str:
    """Tells a time in words where it is a bound of time."""
    if time >= MAX_TIMESTAMP:
        return "the end of time"
    if time <= MIN_TIMESTAMP:
        return "the beginning of time"
    return f"{time} ms"


def _waits_of(state: SchedulerState, stage: StageState) -> Iterator[Wait]:
    name, found = stage.spec.name, False
    for what, why, side_input in (
        *((what, why, "") for what, why in _running(stage)),
        *_side_inputs(state, stage),
        *((what, why, "") for what, why in _end_of_input(state, stage)),
        *((what, why, "") for what, why in _shards(state, stage)),
    ):
        found = True
        yield Wait(name, what, why, side_input)
    if not found and stage.seen_upstream < MAX_TIMESTAMP:
        for collection in stage.spec.inputs:
            watermark = state.collections[collection].watermark
            if watermark < MAX_TIMESTAMP:
                why = f"waits for collection {collection!r}, whose watermark is {tell_time(watermark)}"
                yield Wait(name, WaitFor.UPSTREAM, why)


def _running(stage: StageState) -> Iterator[tuple[WaitFor, str]]:
    if stage.open > stage.paused:
        yield WaitFor.BUNDLES, f"has bundles running: {stage.open - stage.paused}"
    if stage.paused:
        yield WaitFor.RETRY, f"has bundles that failed and run again later: {stage.paused}"
    if stage.delayed:
        yield WaitFor.PROCESSING_TIME, f"has residuals to resume later: {len(stage.delayed)}"


def _side_inputs(state: SchedulerState, stage: StageState) -> Iterator[tuple[WaitFor, str, str]]:
    for side in stage.sides:
        watermark = tell_time(state.collections[side.spec.collection].watermark)
        for window, waiting in side.waiting.items():
            what = "the end" if window is None else f"{window}"
            yield (
                WaitFor.SIDE_INPUT,
                f"has data that waits ({len(waiting)} pieces) for {what} of side input"
                f" {side.spec.name!r}, collection {side.spec.collection!r}, whose watermark is"
                f" {watermark}",
                side.spec.name,
            )


def _end_of_input(state: SchedulerState, stage: StageState) -> Iterator[tuple[WaitFor, str]]:
    ready = any(shard.ready for shard in stage.shards.values())
    if stage.spec.whole_input and ready and stage.seen_upstream < MAX_TIMESTAMP:
        yield (
            WaitFor.END_OF_INPUT,
            f"waits for the end of its input, whose watermark is {tell_time(stage.seen_upstream)}",
        )
    elif ready and stage.section is not None:
        section = state.sections[stage.section]
        if section.phase is SectionPhase.WAITING:
            names = (state.stages[number].spec.name for number in section.node.stages)
            yield (
                WaitFor.END_OF_INPUT,
                f"waits for the end of all that its section reads: {', '.join(map(repr, names))}",
            )


def _shards(state: SchedulerState, stage: StageState) -> Iterator[tuple[WaitFor, str]]:
    for key, shard in stage.shards.items():
        summary, wake = shard.summary, event_wake(shard.summary)
        clock = summary.next_processing_timer
        if shard.open:
            continue
        if clock is not None:
            yield WaitFor.PROCESSING_TIME, f"has a timer in shard {key} for {tell_time(clock)}"
        if wake is not None:
            yield (
                WaitFor.WATERMARK,
                f"waits in shard {key} for the watermark {tell_time(wake)};"
                f" it is {tell_time(stage.seen_upstream)}",
            )
        hold = summary.min_hold
        if clock is None and wake is None and hold is not None:
            yield (
                WaitFor.HOLD,
                f"holds its output watermark at {tell_time(hold)} in shard {key} and has no timer"
                " there that could let it go",
            )
