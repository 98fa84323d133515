"""Sentences about idle sources and slots, and about bundles with too few elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from beam_runner_jobservices.figures.step_metrics import StageFigures
from beam_runner_jobservices.figures.texts import format_count, format_duration, format_percentage
from beam_runner_model.jobs import JobState
from beam_runner_model.observation import BundleProcessKind

from beam_runner_web.watch.stalled_stacks import is_bundle_stalled

from .facts import Cause, CauseKind, CauseSeverity, JobFacts

_IDLE_SECONDS = 15.0
_MANY_BUNDLES = 200
_FEW_ELEMENTS = 5.0
_MOST = 0.5
_BUSY_SHARE = 0.3
_IDLE_SLOTS_SECONDS = 20.0
_EXTERNAL = "beam:env:external:v1"


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


def _find_idle_slots(facts: JobFacts) -> Iterator[Cause]:
    """Yields the sentence about a batch job that leaves at least half of its slots idle, because it has
    too few bundles or because one interpreter runs all user code.
    """
    snapshot, execution = facts.snapshot, facts.snapshot.execution
    if execution is None or snapshot.streaming or snapshot.state is not JobState.RUNNING:
        return
    busy, slots = execution.busy_slots, execution.slots
    if not execution.bundles or 2 * busy > slots:
        return
    oldest = execution.bundles[0]
    stage = next((one for one in snapshot.figures.stages if one.id == oldest.stage), None)
    if stage is None or snapshot.taken - (stage.began or math.inf) / 1000 < _IDLE_SLOTS_SECONDS:
        return
    work = "1 slot works" if busy == 1 else f"{format_count(busy)} slots work"
    text = f"Only {work} of {format_count(slots)}"
    environments = snapshot.tree.pipeline.environments.values()
    is_external = any(one.urn == _EXTERNAL for one in environments)
    bundles = stage.open_bundles or 0
    if is_external and oldest.where is BundleProcessKind.HARNESS:
        text += ": one process of the SDK runs all user code"
        more = "With LOOPBACK, user code shares one Python interpreter; other environments don't"
    elif bundles <= busy:
        count = "1 bundle" if bundles == 1 else f"{format_count(bundles)} bundles"
        text += f": {facts.get_stage_label(stage)} has {count}, and no other step can run"
        more = "A Reshuffle before the step makes more bundles; after a grouping, more keys do"
    else:
        return
    card, step = facts.make_card_link(stage), facts.find_main_step(stage)
    yield Cause(CauseKind.IDLE_SLOTS, CauseSeverity.NOTE, text, card, step, more)


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
    _find_idle_slots,
)
