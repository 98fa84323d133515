"""Texts about the progress of a job, for the web pages and the client's progress line."""

from __future__ import annotations

from collections.abc import Iterator

from beam_runner_model.jobs import JobState

from beam_runner_jobservices.figures.estimates import LagTrend, ProgressFigures
from beam_runner_jobservices.figures.texts import (
    format_count,
    format_duration,
    format_percentage,
)

_HOW = (
    "The time left is the unprocessed input of each stage divided by its rate in the last 10 s, or"
    " follows from the finished parts of its bundles; the slowest stage decides."
)
_WHOLE_SHARE = "The share is the run time divided by run time plus time left."
_PARTIAL_SHARE = (
    "Share and time left are without {stages} that run no bundle yet, since the first unfinished"
    " stage started."
)
_UNKNOWN = (
    "No time left can be estimated yet: the unprocessed input didn't shrink in the last 10 s, or a"
    " bundle hasn't reported its progress."
)


def describe_progress(progress: ProgressFigures, state: JobState) -> tuple[str, ...]:
    """Returns the parts of a line about a running job, such as `53 %` and `about 49 s left`. Leaves
    out figures that the server doesn't report.
    """
    if state is JobState.DRAINING:
        return tuple(_describe_drain(progress))
    if progress.arrivals_per_second is not None or progress.lag_seconds is not None:
        return tuple(_describe_stream(progress))
    return tuple(_describe_batch(progress))


def describe_estimate(progress: ProgressFigures, state: JobState) -> str:
    """Returns how the remaining time of a job was estimated, or why it can't be estimated; empty for a
    stream, which has no remaining time.
    """
    is_endless = state is not JobState.DRAINING and progress.lag_seconds is not None
    if is_endless or not progress.stages:
        return ""
    if progress.seconds_left is None:
        return _UNKNOWN
    if progress.later_stages:
        return f"{_HOW} {_PARTIAL_SHARE.format(stages=_format_stages(progress.later_stages))}"
    return _HOW if state is JobState.DRAINING else f"{_HOW} {_WHOLE_SHARE}"


def _describe_batch(progress: ProgressFigures) -> Iterator[str]:
    if progress.share is not None:
        yield format_percentage(min(progress.share, 0.99))
    if progress.stages:
        yield from _describe_time_left(progress) or ("no estimate yet",)
    yield from _describe_rate(progress)
    yield from _describe_waiting(progress)
    yield from _describe_slots(progress)
    yield from _describe_cores(progress)


def _describe_drain(progress: ProgressFigures) -> Iterator[str]:
    if progress.waiting_elements is not None:
        yield f"{_format_elements(progress.waiting_elements)} left"
    yield from _describe_time_left(progress) or ("no estimate yet",)
    yield from _describe_rate(progress)
    yield from _describe_slots(progress)
    yield from _describe_cores(progress)


def _describe_stream(progress: ProgressFigures) -> Iterator[str]:
    for label, rate in (
        ("in", progress.arrivals_per_second),
        ("out", progress.results_per_second),
    ):
        if rate is not None:
            yield f"{label} {format_count(round(rate))}/s"
    yield from _describe_waiting(progress)
    if progress.lag_seconds is not None:
        trend = {
            LagTrend.GROWING: ", growing",
            LagTrend.SHRINKING: ", shrinking",
            LagTrend.STEADY: ", steady",
            None: "",
        }[progress.lag_trend]
        yield f"{format_duration(progress.lag_seconds)} behind{trend}"
    yield from _describe_slots(progress)
    yield from _describe_cores(progress)


def _describe_time_left(progress: ProgressFigures) -> tuple[str, ...]:
    if progress.seconds_left is None:
        return ()
    left = f"about {format_duration(max(1, round(progress.seconds_left)))} left"
    if progress.later_stages:
        left += f" without {_format_stages(progress.later_stages)}"
    return (left,)


def _format_stages(count: int) -> str:
    return "1 later stage" if count == 1 else f"{format_count(count)} later stages"


def _describe_rate(progress: ProgressFigures) -> tuple[str, ...]:
    rate = progress.elements_per_second
    return () if rate is None or rate < 1 else (f"{format_count(round(rate))}/s in all steps",)


def _describe_waiting(progress: ProgressFigures) -> tuple[str, ...]:
    waiting = progress.waiting_elements
    return () if waiting is None else (f"{_format_elements(waiting)} waiting",)


def _format_elements(count: int) -> str:
    return "1 element" if count == 1 else f"{format_count(count)} elements"


def _describe_slots(progress: ProgressFigures) -> tuple[str, ...]:
    busy, slots = progress.busy_slots, progress.slots
    if slots is None or busy is None:
        return ()
    if busy > slots:
        return (f"{format_count(busy)} bundles on {format_count(slots)} slots",)
    return (f"{format_count(busy)} of {format_count(slots)} {'slot' if slots == 1 else 'slots'}",)


def _describe_cores(progress: ProgressFigures) -> tuple[str, ...]:
    if progress.cores is None:
        return ()
    return ("1.0 core",) if round(progress.cores, 1) == 1 else (f"{progress.cores:.1f} cores",)
