"""Tests of back pressure: residuals wait while a busy consumer has a large backlog."""

from __future__ import annotations

from beam_runner_engine.scheduler.commands import FinishJob, OpenBundles
from beam_runner_engine.scheduler.events import BundleDone, Drain, Output, Residual, Start
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, Limits, StageSpec

from .samples import data, only, refs

GRAPH = GraphSpec(
    (StageSpec("read", ("root",), ("mid",), splittable=True), StageSpec("sink", ("mid",))),
    ("root",),
)


def throttled() -> Scheduler:
    """Returns a scheduler whose sink runs `x` and has `y` queued, so that residual `rest 2` of the
    source waits.
    """
    scheduler = Scheduler(GRAPH, Limits(bundles_per_stage=1, backlog_bytes=5))
    scheduler.handle_event(Start(roots=(Output("root", data("all")),)))
    for read, out, rest in ((0, "x", "rest 1"), (1, "y", "rest 2")):
        number = next(b.number for b in scheduler.open_bundles if b.stage == "read")
        assert number == read
        scheduler.handle_event(
            BundleDone(number, 1, (Output("mid", data(out)),), (Residual(data(rest)),))
        )
    assert [refs(bundle) for bundle in scheduler.open_bundles] == [["x"]]
    return scheduler


def test_throttled_source_resumes_after_the_sink_commits() -> None:
    scheduler = throttled()
    scheduler.handle_event(BundleDone(scheduler.open_bundles[0].number, 1))
    assert sorted(refs(bundle) for bundle in scheduler.open_bundles) == [["rest 2"], ["y"]]
    commands = [scheduler.handle_event(BundleDone(one.number, 1)) for one in scheduler.open_bundles]
    only(commands[-1], FinishJob)


def test_throttled_source_in_a_drain_does_not_wait() -> None:
    opened = only(throttled().handle_event(Drain()), OpenBundles)
    assert [(one.data.ref, one.truncate) for one in opened.bundles[0].inputs] == [("rest 2", True)]
