"""Sentences about idle sources, and about bundles with too few elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from beam_runner_jobservices.figures.step_metrics import StageFigures
from beam_runner_jobservices.figures.texts import format_count, format_duration, format_percentage
from beam_runner_model.jobs import JobState

from beam_runner_web.watch.stalled_stacks import is_bundle_stalled

from .facts import Cause, CauseKind, CauseSeverity, JobFacts

_IDLE_SECONDS = 15.0
_MANY_BUNDLES = 200
_FEW_ELEMENTS = 5.0
_MOST = 0.5
_BUSY_SHARE = 0.3


def _find_idle_sources(facts: JobFacts) -> Iterator[Cause]:
    """Yields the sentence about a stream whose sources have had no data for at least 15 s."""
    snapshot = facts.snapshot
    stages = snapshot.figures.stages
    if snapshot.state is not JobState.RUNNING or not stages or not snapshot.samples:
        return
    if any(stage.waits or stage.waiting_bytes for stage in stages):
        return
    if snapshot.execution and any(map(is_bundle_stalled, snapshot.execution.bundles)):
        return
    present = snapshot.figures.counts
    since = snapshot.taken
    for sample in reversed(snapshot.samples):
        if sample.figures.counts != present:
            break
        since = sample.time
    if snapshot.taken - since >= _IDLE_SECONDS:
        length = format_duration(snapshot.taken - since)
        text = (
            f"No input has arrived for {length} or longer: the sources have no data,"
            " and all earlier data is processed"
        )
        yield Cause(CauseKind.IDLE, CauseSeverity.GOOD, text)


def _find_small_bundles(facts: JobFacts) -> Iterator[Cause]:
    """Yields sentences about stages with almost empty bundles. Such stages spend most of their time
    on the start and commit of bundles.
    """
    snapshot = facts.snapshot
    seconds = snapshot.seconds
    if snapshot.state.is_terminal or not seconds:
        return
    for stage in snapshot.figures.stages:
        times = stage.bundle_msecs
        if times is None or times.count < _MANY_BUNDLES or not times.sum:
            continue
        each = _count_input_elements(facts, stage) / times.count
        around = 1.0 - _sum_wall_time(facts, stage) / times.sum
        if each > _FEW_ELEMENTS or around < _MOST or times.sum / 1000 < _BUSY_SHARE * seconds:
            continue
        text = (
            f"{facts.get_stage_label(stage)} has very small bundles: {format_count(each)} elements "
            "in"
            f" each, {format_count(times.count)} bundles so far; their start and commit took"
            f" {format_percentage(around)} of their time"
        )
        card, step = facts.make_card_link(stage), facts.find_main_step(stage)
        yield Cause(CauseKind.SMALL_BUNDLES, CauseSeverity.WARN, text, card, step)


def _count_input_elements(facts: JobFacts, stage: StageFigures) -> int:
    """Returns the number of input elements of a stage. Uses the maximum over its steps, because a
    source step has few input elements.
    """
    figures = facts.snapshot.figures.steps
    return max((figures[key].elements_in or 0 for key in stage.steps if key in figures), default=0)


def _sum_wall_time(facts: JobFacts, stage: StageFigures) -> int:
    """Returns the total active time of a stage's steps in ms."""
    figures = facts.snapshot.figures.steps
    return sum(figures[key].wall or 0 for key in stage.steps if key in figures)


SHAPE_RULES: tuple[Callable[[JobFacts], Iterator[Cause]], ...] = (
    _find_idle_sources,
    _find_small_bundles,
)
