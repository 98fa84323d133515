"""Sentences about the shape of a job's work: sources that give nothing, bundles that are far too small, a key with
most of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from beam_runner_jobservices import JobState

from .facts import Cause, Facts, Weight
from .figures import StageFigures
from .standing import stands
from .texts import duration, number

_IDLE_SECONDS = 15.0
_MANY_BUNDLES = 200
_FEW_ELEMENTS = 5.0
_SHORT_MSECS = 500.0
_BUSY_SHARE = 0.3


def _idle(facts: Facts) -> Iterator[Cause]:
    """A stream that waits for its sources, and for nothing else."""
    snapshot = facts.snapshot
    stages = snapshot.figures.stages
    if snapshot.state is not JobState.RUNNING or not stages or not snapshot.samples:
        return
    if any(stage.waits or stage.backlog_bytes for stage in stages):
        return
    if snapshot.execution and any(map(stands, snapshot.execution.bundles)):
        return
    present = snapshot.figures.counts
    since = snapshot.taken
    for sample in reversed(snapshot.samples):
        if sample.figures.counts != present:
            break
        since = sample.time
    if snapshot.taken - since >= _IDLE_SECONDS:
        length = duration(snapshot.taken - since)
        text = (
            f"Nothing has come in for {length} or longer: the sources have nothing to give, and all that "
            "they gave is processed"
        )
        yield Cause(Weight.GOOD, text)


def _small_bundles(facts: Facts) -> Iterator[Cause]:
    """Stages that spend a good part of the time with bundles of next to nothing."""
    snapshot = facts.snapshot
    seconds = snapshot.seconds
    if snapshot.state.is_terminal or not seconds:
        return
    for stage in snapshot.figures.stages:
        each = _elements_each(facts, stage)
        times = stage.bundle_msecs
        if each is None or times is None or each > _FEW_ELEMENTS or times.mean > _SHORT_MSECS:
            continue
        busy = times.mean * times.count / 1000 / seconds
        if busy >= _BUSY_SHARE:
            text = (
                f"{facts.name(stage)} gets its work in very small bundles: {number(each)} elements in each, "
                f"{number(stage.committed)} bundles so far, {duration(times.mean / 1000)} each. Beginning and "
                "committing them takes much of that"
            )
            yield Cause(Weight.WARN, text, "stages", facts.step(stage))


def _elements_each(facts: Facts, stage: StageFigures) -> float | None:
    """How many elements a bundle of a stage has on average; None where that is not known."""
    figures = facts.snapshot.figures.steps.get(stage.steps[0]) if stage.steps else None
    if not stage.committed or stage.committed < _MANY_BUNDLES or figures is None:
        return None
    return None if figures.elements_in is None else figures.elements_in / stage.committed


SHAPE_RULES: tuple[Callable[[Facts], Iterator[Cause]], ...] = (_idle, _small_bundles)
