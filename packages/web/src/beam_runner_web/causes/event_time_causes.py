"""Sentences about event time in streams: stages that delay the watermark, late data, and windows that don't close."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from beam_runner_jobservices.figures.estimates import LagTrend
from beam_runner_jobservices.figures.step_metrics import StageFigures
from beam_runner_jobservices.figures.texts import (
    format_count,
    format_duration,
    format_utc_time,
    is_max_timestamp,
    is_min_timestamp,
)
from beam_runner_model.jobs import JobState

from beam_runner_web.watch.timeline import iterate_series_points

from .facts import GROUP_BY_KEY, Cause, CauseKind, CauseSeverity, JobFacts

_LAG_SECONDS = 20.0
_TREND_SECONDS = 15.0
_STANDS_SECONDS = 30.0
_SLOW_SECONDS = 5.0
_BUSY = 0.5
_AS_TIME_GOES = 1.05
_MOST_TOLD = 3


def _find_delaying_stages(facts: JobFacts) -> Iterator[Cause]:
    """Yields a sentence for each stage of a stream that delays event time. Skips stages that are
    late only because an upstream stage is.
    """
    snapshot = facts.snapshot
    # A drain stops the sources, so a late stage only processes what is left.
    is_ending = snapshot.state.is_terminal or snapshot.state is JobState.DRAINING
    if is_ending or not snapshot.streaming:
        return
    found = []
    for stage in snapshot.figures.stages:
        mark = stage.output_watermark
        if mark is None or is_max_timestamp(mark):
            continue
        lag = snapshot.taken - mark / 1000
        if lag > _LAG_SECONDS and (cause := _explain_late_stage(facts, stage, mark, lag)):
            found.append((lag, cause))
    yield from (cause for _, cause in sorted(found, key=lambda one: -one[0])[:_MOST_TOLD])
    if not any(cause.weight <= CauseSeverity.WARN for _, cause in found):
        yield from _find_growing_lag(facts)


def _find_growing_lag(facts: JobFacts) -> Iterator[Cause]:
    """Yields the sentence about a stream that falls behind because elements wait for a stage, even if
    its bundles are short.
    """
    progress = facts.snapshot.progress
    lag = None if progress is None else progress.lag_seconds
    if progress is None or lag is None or lag <= _LAG_SECONDS:
        return
    waiting = max(facts.snapshot.figures.stages, key=lambda one: one.pending_elements or 0)
    if progress.lag_trend is LagTrend.GROWING and waiting.pending_elements:
        count = format_count(waiting.pending_elements)
        text = (
            f"The stream falls behind: {format_duration(lag)} now, and growing;"
            f" {count} elements wait for {facts.get_stage_label(waiting)}"
        )
        step = facts.find_main_step(waiting)
        card = facts.make_card_link(waiting)
        yield Cause(CauseKind.LATE, CauseSeverity.WARN, text, card, step)


def _explain_late_stage(
    facts: JobFacts, stage: StageFigures, mark: int, lag: float
) -> Cause | None:
    ahead = stage.input_watermark
    # A source stage has no event time at its input. Its input watermark is at the end of time, or
    # at the start of time if some input was deferred.
    is_source = ahead is None or is_max_timestamp(ahead) or is_min_timestamp(ahead)
    if is_min_timestamp(mark):
        return _make_missing_watermark_cause(facts, stage) if is_source else None
    own = (
        0.0
        if ahead is None or is_source
        else (_find_available_event_time(facts, stage, ahead) - mark) / 1000
    )
    oldest = (stage.commit_lag or 0) / 1000
    behind = f"its output is {format_duration(lag)} behind"
    step = facts.find_main_step(stage)
    if max(own, oldest) > lag / 2:
        text = f"{facts.get_stage_label(stage)} holds event time back: {behind}"
        if oldest >= min(own, _SLOW_SECONDS):
            many = stage.open_bundles or 1
            ran = f"its oldest bundle has run for {format_duration(oldest)}"
            text = f"{facts.get_stage_label(stage)} doesn't keep up: {behind}, and {ran}"
            text += f" ({many} are not done)" if many > 1 else ""
        return Cause(CauseKind.LATE, CauseSeverity.WARN, text, facts.make_card_link(stage), step)
    return _explain_late_source(facts, stage, mark, lag) if is_source else None


def _find_available_event_time(facts: JobFacts, stage: StageFigures, ahead: int) -> int:
    """Returns the event time (ms) that the upstream stages of a stage have reached.

    `ahead` is the watermark of the stage's input. Elements that wait for the stage or are in its
    bundles hold this watermark back.
    """
    told = (one.output_watermark for one in facts.list_upstream_stages(stage))
    marks = [mark for mark in told if mark is not None and not is_max_timestamp(mark)]
    return max(min(marks, default=ahead), ahead)


def _make_missing_watermark_cause(facts: JobFacts, stage: StageFigures) -> Cause | None:
    """Returns the sentence about a source that emits elements but reports no watermark."""
    source = _find_source(facts, stage)
    if not source or stage.waits or (facts.snapshot.seconds or 0) < _STANDS_SECONDS:
        return None
    text = (
        f"{facts.snapshot.tree.steps[source].name} has not reported a watermark yet:"
        " windows after it can't close"
    )
    return Cause(CauseKind.LATE, CauseSeverity.WARN, text, facts.make_card_link(stage), source)


def _explain_late_source(
    facts: JobFacts, stage: StageFigures, mark: int, lag: float
) -> Cause | None:
    """Returns the sentence about a source stage whose watermark is late: the stage is too slow,
    catches up, or waits for data.
    """
    source = _find_source(facts, stage)
    if not source:
        return None
    now = facts.snapshot.taken
    points = [(point[0], point[1]) for point in iterate_series_points(facts.snapshot, stage.id)]
    before = next((p for p in reversed(points) if p[0] <= now - _TREND_SECONDS), None)
    moved = None if before is None else (mark - before[1]) / 1000 / (now - before[0])
    behind = f"its output is {format_duration(lag)} behind"
    if moved is not None and moved > _AS_TIME_GOES:
        left = format_duration(lag / (moved - 1))
        text = (
            f"{facts.get_stage_label(stage)} catches up: {behind}, and at this rate it needs {left}"
        )
        return Cause(
            CauseKind.LATE,
            CauseSeverity.NOTE,
            text,
            facts.make_card_link(stage),
            facts.find_main_step(stage),
        )
    if _is_busy(facts, stage):
        comes = ", and doesn't catch up" if moved is not None else ""
        text = f"{facts.get_stage_label(stage)} doesn't keep up with its source: {behind}{comes}"
        return Cause(
            CauseKind.LATE,
            CauseSeverity.WARN,
            text,
            facts.make_card_link(stage),
            facts.find_main_step(stage),
        )
    since = next((time for time, at in points if at == mark), now)
    name = facts.snapshot.tree.steps[source].name
    if now - since >= _STANDS_SECONDS:
        text = (
            f"{name} holds event time back: its watermark has been {format_utc_time(mark / 1000)}"
            f" UTC for {format_duration(now - since)}, {format_duration(lag)} behind, and later"
            " windows after it can't close"
        )
        more = "A source without data must still advance its watermark"
        return Cause(
            CauseKind.LATE, CauseSeverity.WARN, text, facts.make_card_link(stage), source, more
        )
    return Cause(
        CauseKind.LATE,
        CauseSeverity.NOTE,
        f"{name} is late: {behind}",
        facts.make_card_link(stage),
        source,
    )


def _is_busy(facts: JobFacts, stage: StageFigures) -> bool:
    """Returns whether the steps of a stage were active for most of the last 15 s."""
    before = facts.find_earlier_sample(_TREND_SECONDS)
    if before is None:
        return False
    worked = sum(
        max(0, facts.get_wall_time(key) - facts.get_wall_time(key, before)) for key in stage.steps
    )
    return worked / 1000 > _BUSY * (facts.snapshot.taken - before.time)


def _find_source(facts: JobFacts, stage: StageFigures) -> str:
    """Returns the first source of an unbounded PCollection in a stage; empty if none exists."""
    sources = facts.snapshot.tree.sources
    return next((key for key in stage.steps if key in sources), "")


def _find_dropped_data(facts: JobFacts) -> Iterator[Cause]:
    """Yields sentences about groupings and stateful steps that have dropped late data, which is
    missing from the results.
    """
    names = facts.snapshot.tree.steps
    for stage in facts.snapshot.figures.stages:
        if stage.dropped and stage.steps:
            step = facts.find_grouping(stage) or stage.steps[0]
            values = "a value" if stage.dropped == 1 else f"{format_count(stage.dropped)} values"
            text = (
                f"{names[step].name} has dropped {values} as late, after their windows"
                " had closed, or after the last firing of their trigger"
            )
            more = (
                "A longer allowed lateness keeps windows open longer; a trigger"
                " inside Repeatedly fires again"
            )
            yield Cause(
                CauseKind.DROPPED, CauseSeverity.WARN, text, facts.make_card_link(stage), step, more
            )


def _find_open_windows(facts: JobFacts) -> Iterator[Cause]:
    """Yields sentences about groupings without output, for the reason that all windows of the
    grouping are still open. Without such a sentence, the grouping seems stuck.
    """
    snapshot = facts.snapshot
    if snapshot.state is not JobState.RUNNING or not snapshot.streaming:
        return
    figures, collections = snapshot.figures, snapshot.tree.pipeline.pcollections
    stages = {
        _find_grouping_step(facts, one): one
        for one in figures.stages
        if not is_max_timestamp(one.output_watermark)
    }
    for key, stage in stages.items():
        taken = figures.steps[key].elements_in if key in figures.steps else 0
        given = snapshot.tree.steps[key].description.outputs.values() if taken else ()
        if given and not any(figures.counts.get(one) for one in given):
            name = snapshot.tree.steps[key].name
            windows = " ".join(collections[one].windows for one in given if one in collections)
            open_ = "its trigger has not fired" if "trigger" in windows else "no window has closed"
            text = (
                f"{name} collects values, and has not emitted a group yet: {open_}"
                f" so far ({windows})"
            )
            yield Cause(
                CauseKind.GATHERS, CauseSeverity.NOTE, text, facts.make_card_link(stage), key
            )


def _find_grouping_step(facts: JobFacts, stage: StageFigures) -> str:
    """Returns the step that groups the input of a stage: a GroupByKey, or a combine. Empty if the
    stage's input isn't grouped.
    """
    tree = facts.snapshot.tree
    first = next(iter(stage.steps), "")
    if found := facts.find_grouping(stage):
        return found
    parts = tree.list_leaves(first) if first and tree.steps[first].children else ()
    return first if any(tree.steps[one].description.urn == GROUP_BY_KEY for one in parts) else ""


EVENT_TIME_RULES: tuple[Callable[[JobFacts], Iterator[Cause]], ...] = (
    _find_delaying_stages,
    _find_dropped_data,
    _find_open_windows,
)
