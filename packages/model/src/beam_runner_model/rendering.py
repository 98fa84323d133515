"""The text of a record, the same for a log and for a page."""

from __future__ import annotations

from collections.abc import Sequence

from beam_runner_model.failures import Ending, FailedBundle, FailureCause
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from beam_runner_model.waits import Wait, WaitKind

_MOST_WAITS = 8
_MOST_NAMES = 6
_OUTSIDE = (FailureCause.LOST_PROCESS, FailureCause.OUTSIDE)


def render(
    record: Wait | FailedBundle | Ending, *, who: str = "", now: Timestamp | None = None
) -> str:
    """Returns the text of a record: one sentence without its full stop.

    Args:
        record: what is told.
        who: the name of what waits, or of what failed; by default the steps of the record, or its stage.
        now: the present processing time (ms), for the length of a pause.
    """
    match record:
        case Wait():
            who = who or name_of(record.steps, record.stage)
            return _of_stage(record, who) or _of_host(record, who, now)
        case FailedBundle():
            return _of_bundle(record, who or name_of(record.steps, ""))
        case Ending():
            return record.reason


def render_waits(waits: Sequence[Wait], *, now: Timestamp | None = None) -> str:
    """Returns one text for several waits: the causes without their consequences, and at most eight of them."""
    causes = [wait for wait in waits if wait.kind is not WaitKind.UPSTREAM] or waits
    texts = [render(wait, now=now) for wait in causes[:_MOST_WAITS]]
    if len(causes) > _MOST_WAITS:
        texts.append(f"{len(causes) - _MOST_WAITS} more like these")
    return "; ".join(texts)


def render_time(time: Timestamp | None) -> str:
    """Returns the text of a time in ms, with words for the bounds of time."""
    if time is None or time <= MIN_TIMESTAMP:
        return "the beginning of time"
    return "the end of time" if time >= MAX_TIMESTAMP else f"{time} ms"


def render_duration(seconds: float) -> str:
    """Returns the text of a length of time, in whole seconds, at least 1."""
    return f"{max(1, round(seconds))} s"


def name_of(steps: Sequence[str], stage: str) -> str:
    """Returns one name for the steps of a stage: all if they are few, else the first, the last and their number."""
    if not steps:
        return f"stage {stage!r}" if stage else ""
    if len(steps) <= _MOST_NAMES:
        return f"'{' + '.join(steps)}'"
    return f"'{steps[0]} ... {steps[-1]} ({len(steps):,} transforms)'"


def _of_stage(wait: Wait, who: str) -> str:
    """Returns the text of a wait that the scheduler reports, else an empty text."""
    at = render_time(wait.watermark)
    match wait.kind:
        case WaitKind.BUNDLES:
            return f"{who} has bundles running: {wait.count}"
        case WaitKind.RETRY:
            return f"{who} has bundles that failed and run again later: {wait.count}"
        case WaitKind.RESUMPTION:
            return f"{who} has residuals to resume later: {wait.count}"
        case WaitKind.TIMER:
            return f"{who} has a timer in shard {wait.shard} for {render_time(wait.until)}"
        case WaitKind.WATERMARK:
            until = render_time(wait.until)
            return f"{who} waits in shard {wait.shard} for the watermark {until}; it is {at}"
        case WaitKind.HOLD:
            return (
                f"{who} holds its output watermark at {render_time(wait.until)} in shard {wait.shard} and has"
                " no timer there that could let it go"
            )
        case WaitKind.SIDE_INPUT:
            window = f" in the window {wait.window}" if wait.window else ""
            givers = f", which {' and '.join(wait.givers)} has not given yet" if wait.givers else ""
            return (
                f"{who} waits for its side input {wait.side_input!r}{window}{givers}; it is at {at}"
            )
        case WaitKind.END_OF_INPUT:
            return f"{who} waits for the end of its input, whose watermark is {at}"
        case WaitKind.END_OF_SECTION_INPUT:
            stages = ", ".join(map(repr, wait.givers))
            return f"{who} waits for the end of all that its section reads: {stages}"
        case WaitKind.UPSTREAM:
            return f"{who} waits for collection {wait.collection!r}, whose watermark is {at}"
        case _:
            return ""


def _of_host(wait: Wait, who: str, now: Timestamp | None) -> str:
    """Returns the text of a wait that a host reports."""
    lasted = render_duration(wait.seconds)
    match wait.kind:
        case WaitKind.NEIGHBOUR:
            known = now is not None and wait.until is not None and wait.until > now
            again = f"; the next try is in {_pause(wait.until, now)}" if known else ""
            return (
                f"{who or 'the job'} waits for {wait.neighbour}, which has been unavailable for {lasted}:"
                f" {wait.reason}{again}"
            )
        case WaitKind.SLOT:
            return f"bundles wait for a worker process: {wait.count}"
        case WaitKind.HARNESS:
            return f"an SDK harness has been starting for {lasted}, in which bundles are to run: {wait.count}"
        case WaitKind.TASKS:
            return f"{who}: {wait.done} of {wait.count} tasks"
        case WaitKind.PROCESS:
            where = f", at work on {who}," if who else ""
            return (
                f"Python worker {wait.pid} on {wait.host}{where} has not answered for {lasted}: code in C"
                " holds Python's lock, or the process was stopped; if that never ends, cancel the job"
            )
        case _:
            return f"{who or 'the job'} waits for something that this version does not know"


def _of_bundle(failed: FailedBundle, who: str) -> str:
    """Returns the text of a failed bundle: what failed, how often, what follows, and the error."""
    of = f" of {who}" if who else ""
    pause = "" if failed.next_in is None else f" in {render_duration(failed.next_in)}"
    element = f", at the element {failed.element}" if failed.element else ""
    if failed.kind is FailureCause.UNAVAILABLE:
        away = f", which has been unavailable for {render_duration(failed.away)}"
        return (
            f"a bundle{of} waits for {failed.neighbour}{away}, and is tried again{pause}, which counts as"
            f" no attempt: {failed.error}"
        )
    outside = " from outside of user code" if failed.kind in _OUTSIDE else ""
    return (
        f"attempt {failed.attempts} at a bundle{of} failed{outside}, and it is tried again{pause}:"
        f" {failed.error}{element}"
    )


def _pause(until: Timestamp | None, now: Timestamp | None) -> str:
    return render_duration(((until or 0) - (now or 0)) / 1000)
