"""Sentences about event time in streams: which stage holds it back, whether it comes nearer, what came too late,
and what waits for its window to close.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from beam_runner_jobservices import JobState

from .facts import Cause, Facts, Weight
from .figures import StageFigures
from .texts import clock, duration, is_end, is_start, number
from .timeline import points_of

_LAG_SECONDS = 20.0
_TREND_SECONDS = 15.0
_STANDS_SECONDS = 30.0
_BUSY = 0.5
_AS_TIME_GOES = 1.05
_MOST_TOLD = 3


def _late(facts: Facts) -> Iterator[Cause]:
    """Stages of a stream that are late by themselves, and not since those before them are."""
    snapshot = facts.snapshot
    if snapshot.state.is_terminal or not snapshot.streaming:
        return
    found = []
    for stage in snapshot.figures.stages:
        mark = stage.output_watermark
        if mark is None or is_end(mark):
            continue
        lag = snapshot.taken - mark / 1000
        if lag > _LAG_SECONDS and (cause := _of_stage(facts, stage, mark, lag)):
            found.append((lag, cause))
    yield from (cause for _, cause in sorted(found, key=lambda one: -one[0])[:_MOST_TOLD])


def _of_stage(facts: Facts, stage: StageFigures, mark: int, lag: float) -> Cause | None:
    ahead = stage.input_watermark
    is_source = ahead is None or is_end(ahead)
    if is_start(mark):
        return _untold(facts, stage) if is_source else None
    own = 0.0 if ahead is None or is_source else (ahead - mark) / 1000
    oldest = (stage.commit_lag or 0) / 1000
    behind = f"what comes out of it is {duration(lag)} behind"
    step = facts.step(stage)
    if max(own, oldest) > lag / 2:
        # A stage's watermarks are both held by what it has in its bundles: a slow one is seen by their age.
        text = f"{facts.name(stage)} holds event time back: {behind}"
        if oldest >= own:
            many = stage.open_bundles or 1
            ran = f"its oldest bundle has run for {duration(oldest)}"
            text = f"{facts.name(stage)} does not keep up: {behind}, and {ran}"
            text += f" ({many} are not done)" if many > 1 else ""
        return Cause(Weight.WARN, text, facts.card(stage), step)
    return _of_source(facts, stage, mark, lag) if is_source else None


def _untold(facts: Facts, stage: StageFigures) -> Cause | None:
    """A source that gives elements, and no event time with them."""
    source = _source(facts, stage)
    if not source or stage.waits or (facts.snapshot.seconds or 0) < _STANDS_SECONDS:
        return None
    text = f"{facts.snapshot.tree.steps[source].name} has told of no event time yet: no window after it can close"
    return Cause(Weight.WARN, text, facts.card(stage), source)


def _of_source(facts: Facts, stage: StageFigures, mark: int, lag: float) -> Cause | None:
    """A stage with a source that is late: it is too slow, catches up, or waits for its source."""
    source = _source(facts, stage)
    if not source:
        return None
    now = facts.snapshot.taken
    points = [(point[0], point[1]) for point in points_of(facts.snapshot, stage.id)]
    before = next((p for p in reversed(points) if p[0] <= now - _TREND_SECONDS), None)
    moved = None if before is None else (mark - before[1]) / 1000 / (now - before[0])
    behind = f"what comes out of it is {duration(lag)} behind"
    if moved is not None and moved > _AS_TIME_GOES:
        left = duration(lag / (moved - 1))
        text = (
            f"{facts.name(stage)} catches up: {behind}, and at this pace it is up to date in {left}"
        )
        return Cause(Weight.NOTE, text, facts.card(stage), facts.step(stage))
    if _busy(facts, stage):
        comes = ", and comes no nearer" if moved is not None else ""
        text = f"{facts.name(stage)} does not keep up with its source: {behind}{comes}"
        return Cause(Weight.WARN, text, facts.card(stage), facts.step(stage))
    since = next((time for time, at in points if at == mark), now)
    name = facts.snapshot.tree.steps[source].name
    if now - since >= _STANDS_SECONDS:
        text = (
            f"{name} holds event time back: it has stood at {clock(mark / 1000)} UTC for {duration(now - since)}, "
            f"{duration(lag)} behind, and no later window after it can close"
        )
        more = "A source that has nothing to give must say how far event time has come, by its watermark"
        return Cause(Weight.WARN, text, facts.card(stage), source, more)
    return Cause(Weight.NOTE, f"{name} is late: {behind}", facts.card(stage), source)


def _busy(facts: Facts, stage: StageFigures) -> bool:
    """Whether the steps of a stage were at work most of the time lately."""
    before = facts.before(_TREND_SECONDS)
    if before is None:
        return False
    worked = sum(max(0, facts.wall(key) - facts.wall(key, before)) for key in stage.steps)
    return worked / 1000 > _BUSY * (facts.snapshot.taken - before.time)


def _source(facts: Facts, stage: StageFigures) -> str:
    """The first step in a stage that gives an unbounded PCollection; empty where none does."""
    tree = facts.snapshot.tree
    collections = tree.pipeline.pcollections
    for key in stage.steps:
        outputs = tree.steps[key].description.outputs.values()
        if any(one in collections and not collections[one].bounded for one in outputs):
            return key
    return ""


def _dropped(facts: Facts) -> Iterator[Cause]:
    """Groupings and stateful steps that have dropped something: people miss it in the results."""
    names = facts.snapshot.tree.steps
    for stage in facts.snapshot.figures.stages:
        if stage.dropped and stage.steps:
            step = facts.grouping(stage) or stage.steps[0]
            values = "a value" if stage.dropped == 1 else f"{number(stage.dropped)} values"
            text = (
                f"{names[step].name} has dropped {values}: too late, after their windows had closed, or after the "
                "last firing of their trigger"
            )
            more = "A longer allowed lateness keeps windows open; a trigger fires again within Repeatedly"
            yield Cause(Weight.WARN, text, facts.card(stage), step, more)


def _gathers(facts: Facts) -> Iterator[Cause]:
    """Groupings that have given nothing yet, since all their windows are open: it looks as if they stood."""
    snapshot = facts.snapshot
    if snapshot.state is not JobState.RUNNING or not snapshot.streaming:
        return
    counts, collections = snapshot.figures.counts, snapshot.tree.pipeline.pcollections
    for stage in snapshot.figures.stages:
        grouping = facts.grouping(stage)
        if not grouping or not stage.committed or is_end(stage.output_watermark):
            continue
        step = snapshot.tree.steps[grouping]
        given = [one for one in step.description.outputs.values() if one in collections]
        if given and not any(counts.get(one) for one in given):
            windows = collections[given[0]].windows
            text = f"{step.name} gathers values, and has given no group yet: no window has closed so far ({windows})"
            yield Cause(Weight.NOTE, text, facts.card(stage), grouping)


EVENT_TIME_RULES: tuple[Callable[[Facts], Iterator[Cause]], ...] = (_late, _dropped, _gathers)
