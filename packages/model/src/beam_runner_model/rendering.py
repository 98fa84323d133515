"""Text of waits and failures, the same in logs and on web pages."""

from __future__ import annotations

from collections.abc import Sequence

from beam_runner_model.failures import FailedBundle, FailureCause, JobFailure
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from beam_runner_model.waits import Wait, WaitKind

_MOST_WAITS = 8
_MOST_NAMES = 6
_OUTSIDE = (FailureCause.LOST_PROCESS, FailureCause.OUTSIDE)


def render_record(
    record: Wait | FailedBundle | JobFailure, *, who: str = "", now: Timestamp | None = None
) -> str:
    """Returns the text of a record: one sentence without the final period.

    Args:
        record: the wait, failed bundle or job ending to describe.
        who: the name of the waiting or failed component. The default is the steps of the record, or
            its stage.
        now: the current processing time (ms), for the time that remains until a retry.
    """
    match record:
        case Wait():
            who = who or format_steps(record.steps, record.stage)
            return _render_stage_wait(record, who) or _render_wait_of_driver(record, who, now)
        case FailedBundle():
            return _render_failed_bundle(record, who or format_steps(record.steps, ""))
        case JobFailure():
            return record.reason


def render_waits(waits: Sequence[Wait], *, now: Timestamp | None = None) -> str:
    """Returns one text for several reasons to wait. The text has at most eight causes, and omits
    waits that follow from these causes.
    """
    causes = [wait for wait in waits if wait.kind is not WaitKind.UPSTREAM] or waits
    texts = [render_record(wait, now=now) for wait in causes[:_MOST_WAITS]]
    if len(causes) > _MOST_WAITS:
        texts.append(f"{len(causes) - _MOST_WAITS} more like these")
    return "; ".join(texts)


def render_time(time: Timestamp | None) -> str:
    """Returns the text of a time (ms), with words for the minimum and maximum timestamp."""
    if time is None or time <= MIN_TIMESTAMP:
        return "the minimum timestamp"
    return "the maximum timestamp" if time >= MAX_TIMESTAMP else f"{time} ms"


def render_duration(seconds: float) -> str:
    """Returns the text of a duration (seconds), rounded to whole seconds, at least 1 s."""
    return f"{max(1, round(seconds))} s"


def format_steps(steps: Sequence[str], stage: str) -> str:
    """Returns a short name for the steps of a stage.

    The name lists up to six steps. For more steps, the name consists of the first step, the last
    step and the number of steps.
    """
    if not steps:
        return f"stage {stage!r}" if stage else ""
    if len(steps) <= _MOST_NAMES:
        return f"'{' + '.join(steps)}'"
    return f"'{steps[0]} ... {steps[-1]} ({len(steps):,} transforms)'"


def _render_stage_wait(wait: Wait, who: str) -> str:
    """Returns the text of a wait that the scheduler reports, or an empty text for other waits."""
    at = render_time(wait.watermark)
    match wait.kind:
        case WaitKind.BUNDLES:
            return f"{who} has running bundles: {wait.count}"
        case WaitKind.RETRY:
            return f"{who} has failed bundles that will be retried: {wait.count}"
        case WaitKind.RESUMPTION:
            return f"{who} has residuals that will resume later: {wait.count}"
        case WaitKind.TIMER:
            return f"{who} has a timer in shard {wait.shard} for {render_time(wait.until)}"
        case WaitKind.WATERMARK:
            until = render_time(wait.until)
            return f"{who} waits in shard {wait.shard} for the watermark {until}; the watermark is {at}"
        case WaitKind.HOLD:
            return (
                f"{who} holds its output watermark at {render_time(wait.until)} in shard {wait.shard}, but"
                " the shard has no timer that can release the hold"
            )
        case WaitKind.SIDE_INPUT:
            window = f" in the window {wait.window}" if wait.window else ""
            givers = f" from {' and '.join(wait.givers)}" if wait.givers else ""
            return (
                f"{who} waits for its side input {wait.side_input!r}{window}{givers}; the side"
                f" input's watermark is {at}"
            )
        case WaitKind.END_OF_INPUT:
            return f"{who} waits for the end of its input, whose watermark is {at}"
        case WaitKind.END_OF_SECTION_INPUT:
            stages = ", ".join(map(repr, wait.givers))
            return f"{who} waits until all inputs of its section end; the section's stages are {stages}"
        case WaitKind.UPSTREAM:
            return f"{who} waits for collection {wait.collection!r}, whose watermark is {at}"
        case _:
            return ""


def _render_wait_of_driver(wait: Wait, who: str, now: Timestamp | None) -> str:
    """Returns the text of a wait that the driver reports, such as a wait for an external system, a
    slot or a process.
    """
    lasted = render_duration(wait.seconds)
    match wait.kind:
        case WaitKind.NEIGHBOUR:
            known = now is not None and wait.until is not None and wait.until > now
            again = (
                f"; the next attempt starts in {_render_pause(wait.until, now)}" if known else ""
            )
            return (
                f"{who or 'the job'} waits for {wait.neighbour}, which has been unavailable for {lasted}:"
                f" {wait.reason}{again}"
            )
        case WaitKind.SLOT:
            return f"bundles waiting for a worker process: {wait.count}"
        case WaitKind.HARNESS:
            return (
                f"an SDK harness has been starting for {lasted}; bundles waiting for the harness:"
                f" {wait.count}"
            )
        case WaitKind.TASKS:
            return f"{who}: {wait.done} of {wait.count} tasks finished"
        case WaitKind.PROCESS:
            where = f", which runs {who}," if who else ""
            return (
                f"Python worker {wait.pid} on {wait.host}{where} has not responded for {lasted}: native code"
                " holds the GIL, or the process is stopped; if the process doesn't recover, cancel the job"
            )
        case _:
            return f"{who or 'the job'} has a kind of wait that this version does not know"


def _render_failed_bundle(failed: FailedBundle, who: str) -> str:
    """Returns the text of a failed bundle: the stage, the number of attempts, the next attempt and
    the error.
    """
    of = f" of {who}" if who else ""
    pause = "" if failed.next_in is None else f" in {render_duration(failed.next_in)}"
    element = f", while processing the element {failed.element}" if failed.element else ""
    if failed.kind is FailureCause.UNAVAILABLE:
        away = f", which has been unavailable for {render_duration(failed.away)}"
        return (
            f"a bundle{of} waits for {failed.neighbour}{away}, and will be retried{pause} without"
            f" counting an attempt: {failed.error}"
        )
    outside = " outside of user code" if failed.kind in _OUTSIDE else ""
    return (
        f"attempt {failed.attempts} at a bundle{of} failed{outside} and will be retried{pause}:"
        f" {failed.error}{element}"
    )


def _render_pause(until: Timestamp | None, now: Timestamp | None) -> str:
    return render_duration(((until or 0) - (now or 0)) / 1000)
