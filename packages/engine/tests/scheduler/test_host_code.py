"""Tests that policies and window mappings that raise or return invalid results fail the job with a
reason.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from beam_runner_model.facts import DataStatistics
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow, Window

from beam_runner_engine.scheduler.commands import CancelBundles, FailJob, OpenBundles
from beam_runner_engine.scheduler.events import (
    BundleDone,
    BundleFailed,
    Output,
    Progress,
    Residual,
    SplitDone,
    Start,
    Tick,
)
from beam_runner_engine.scheduler.policy import Load, RunningBundle
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, Limits, SideInputSpec, StageSpec
from beam_runner_engine.scheduler.transitions import Phase

from .samples import data, only

READ = GraphSpec((StageSpec("read", ("root",), splittable=True),), ("root",))


@attrs.frozen
class Policy:
    """Policy that returns given answers, or raises an answer that is an exception. The first call
    returns a valid distribution of work to bundles.
    """

    counts: Any = (1,)
    fraction: Any = None

    def plan_initial_split(
        self, work: Sequence[DataStatistics], most: int, load: Load
    ) -> Sequence[int]:
        return (1,) if load.open == 0 else _answer(self.counts)

    def plan_dynamic_split(self, bundle: RunningBundle, load: Load) -> float | None:
        return _answer(self.fraction)


@attrs.frozen
class Mapping:
    """Mapping that supports the global window only."""

    def map_window(self, main_window: Window | None) -> Window | None:
        if main_window != GLOBAL_WINDOW:
            raise LookupError("no such window")
        return GLOBAL_WINDOW


def _answer(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def check_failed(scheduler: Scheduler, commands: Sequence[object], reason: str) -> None:
    """Checks that the job failed completely: running bundles are cancelled, and further events have
    no effect.
    """
    assert reason in only(commands, FailJob).reason
    assert (scheduler.phase, scheduler.open_bundles) == (Phase.FAILED, ())
    before = pickle.dumps(scheduler)
    events = (Tick(9), Progress(0, 1, 0.5, 1), BundleDone(0, 1), BundleFailed(0, 1, "late"))
    assert [scheduler.handle_event(event) for event in events] == [()] * len(events)
    assert pickle.dumps(pickle.loads(before)) == before == pickle.dumps(scheduler)


@pytest.mark.parametrize(
    ("fraction", "reason"),
    [
        (ValueError("no idea"), "of stage 'read' failed with the error ValueError('no idea')"),
        (1.5, "of stage 'read' returned the split fraction 1.5"),
    ],
)
def test_invalid_dynamic_split_fails_the_job(fraction: object, reason: str) -> None:
    scheduler = Scheduler(READ, policy=Policy(fraction=fraction))
    scheduler.handle_event(Start(roots=(Output("root", data("a")),)))
    commands = scheduler.handle_event(Progress(0, 1, 0.5, 1))
    assert only(commands, CancelBundles).bundles == ((0, 1),)
    check_failed(scheduler, commands, reason)


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        (ValueError("no idea"), "failed with the error ValueError('no idea')"),
        ((), "divided 2 pieces of work into bundles of sizes []"),
        ((1, 0), "divided 2 pieces of work into bundles of sizes [1, 0]"),
        ((1, 2), "divided 2 pieces of work into bundles of sizes [1, 2]"),
        ((1, 1), "the maximum is 1 bundles"),
    ],
)
def test_invalid_initial_split_fails_the_job(counts: object, reason: str) -> None:
    """Uses a residual of a running bundle, so that the error occurs in the middle of handling an
    event.
    """
    policy = Policy(counts=counts, fraction=0.5)
    scheduler = Scheduler(READ, Limits(bundles_per_stage=2), policy)
    scheduler.handle_event(Start(roots=(Output("root", data("a")),)))
    inputs = scheduler.open_bundles[0].inputs
    scheduler.handle_event(Progress(0, 1, 0.1, 1))
    residuals = (Residual(data("b")), Residual(data("c")))
    commands = scheduler.handle_event(SplitDone(0, 1, inputs, residuals))
    assert only(commands, CancelBundles).bundles == ((0, 1),)
    check_failed(scheduler, commands, reason)


def test_raising_window_mapping_fails_the_job() -> None:
    side = SideInputSpec("s", "side", Mapping())
    graph = GraphSpec(
        (StageSpec("first", ("root",), ("mid",)), StageSpec("use", ("mid",), side_inputs=(side,))),
        ("root", "side"),
    )
    scheduler = Scheduler(graph)
    scheduler.handle_event(Start(roots=(Output("root", data("a")),)))
    window = IntervalWindow(0, 10)
    good, bad = (
        Output("mid", data(ref, windows=(w,))) for ref, w in (("g", GLOBAL_WINDOW), ("b", window))
    )
    commands = scheduler.handle_event(BundleDone(0, 1, (good, bad)))
    reason = "the window mapping of side input 's' of stage 'use' failed with the error LookupError('no such window')"
    check_failed(scheduler, commands, reason)
    assert not [command for command in commands if isinstance(command, CancelBundles)]


class OpaqueReference:
    """Reference to data that must not be formatted, because a description of many elements is
    slow.
    """

    def __repr__(self) -> str:
        raise AssertionError("formatted")


def test_scheduler_never_formats_references_of_valid_data() -> None:
    scheduler = Scheduler(READ, Limits(parallelism=1))
    (bundle,) = only(
        scheduler.handle_event(Start(roots=(Output("root", data(OpaqueReference())),))), OpenBundles
    ).bundles
    scheduler.handle_event(BundleDone(bundle.number, bundle.attempt, ()))
    assert scheduler.phase is Phase.DONE
