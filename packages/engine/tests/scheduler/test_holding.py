"""Tests of stages that the caller holds: these stages open no bundles, while the rest of the job
finishes its work.
"""

from __future__ import annotations

import pytest

from beam_runner_engine.scheduler.commands import OpenBundles, SplitBundle
from beam_runner_engine.scheduler.errors import IllegalEvent
from beam_runner_engine.scheduler.events import (
    AttemptsLost,
    BundleDone,
    Drain,
    Hold,
    Output,
    Progress,
    Residual,
    SplitDone,
    Start,
)
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    AdvanceWatermark,
    GraphSpec,
    StageSpec,
    TestStreamSpec,
)
from beam_runner_engine.scheduler.transitions import Phase

from .samples import data, only, refs

GRAPH = GraphSpec(
    (StageSpec("read", ("root",), ("made",), splittable=True), StageSpec("write", ("made",))),
    ("root",),
)


def reading(graph: GraphSpec = GRAPH) -> Scheduler:
    """Returns a scheduler whose bundle 0 reads a source."""
    scheduler = Scheduler(graph)
    scheduler.handle_event(Start(roots=(Output("root", data("source")),)))
    return scheduler


def state_of(scheduler: Scheduler) -> tuple[bool, Phase]:
    """Returns whether the job is quiet, and its phase."""
    return scheduler.is_idle, scheduler.phase


def test_job_with_a_held_source_checkpoints_the_source_and_has_no_open_bundles() -> None:
    scheduler = reading()
    assert not scheduler.is_idle
    assert only(scheduler.handle_event(Hold(("read",))), SplitBundle) == SplitBundle(0, 1, 0.0)
    done = BundleDone(0, 1, (Output("made", data("one")),), (Residual(data("rest")),))
    written = only(scheduler.handle_event(done), OpenBundles)
    assert written.stage == "write"
    assert not scheduler.is_idle
    assert scheduler.handle_event(BundleDone(1, 1))[:-1] == ()
    assert state_of(scheduler) == (True, Phase.RUNNING), "a held job is stuck by request"
    assert scheduler.held_stages == ("read",)


def test_source_released_from_a_hold_opens_a_bundle_for_its_residual() -> None:
    scheduler = reading()
    scheduler.handle_event(Hold(("read",)))
    scheduler.handle_event(BundleDone(0, 1, (), (Residual(data("rest")),)))
    opened = only(scheduler.handle_event(Hold()), OpenBundles)
    assert refs(opened.bundles[0]) == ["rest"]
    assert (scheduler.held_stages, scheduler.is_idle) == ((), False)


def test_hold_event_releases_stages_of_the_previous_hold_event() -> None:
    scheduler = reading()
    scheduler.handle_event(Hold(("read",)))
    scheduler.handle_event(BundleDone(0, 1, (), (Residual(data("rest")),)))
    assert only(scheduler.handle_event(Hold(("write",))), OpenBundles).stage == "read"
    done = BundleDone(1, 1, (Output("made", data("one")),))
    assert not any(isinstance(one, OpenBundles) for one in scheduler.handle_event(done))
    assert only(scheduler.handle_event(Hold()), OpenBundles).stage == "write"


def test_held_source_after_a_failed_split_gets_another_split_request() -> None:
    scheduler = reading()
    scheduler.handle_event(Hold(("read",)))
    assert scheduler.handle_event(Hold(("read",))) == (), "a request is pending"
    scheduler.handle_event(SplitDone(0, 1))
    assert only(scheduler.handle_event(Progress(0, 1, 0.1, 10)), SplitBundle).fraction == 0.0


def test_held_source_after_a_lost_attempt_gets_another_split_request() -> None:
    scheduler = reading()
    scheduler.handle_event(Hold(("read",)))
    scheduler.handle_event(AttemptsLost())
    assert only(scheduler.handle_event(Progress(0, 2, 0.1, 10)), SplitBundle).attempt == 2


def test_held_stage_without_restrictions_gets_no_split_request() -> None:
    scheduler = reading(GraphSpec((StageSpec("read", ("root",)),), ("root",)))
    assert scheduler.handle_event(Hold(("read",))) == ()
    scheduler.handle_event(BundleDone(0, 1))
    assert scheduler.phase is Phase.DONE


def test_drain_releases_held_stages() -> None:
    scheduler = reading()
    scheduler.handle_event(Hold(("read",)))
    scheduler.handle_event(BundleDone(0, 1, (), (Residual(data("rest")),)))
    opened = only(scheduler.handle_event(Drain()), OpenBundles)
    assert opened.bundles[0].inputs[0].truncate
    assert scheduler.held_stages == ()
    assert scheduler.handle_event(Hold(("read",))) == ()
    assert scheduler.held_stages == ()


def test_job_with_a_held_stage_takes_no_step_of_a_test_stream() -> None:
    stream = TestStreamSpec("stream", ("root",), (AdvanceWatermark("root", 5),) * 3)
    scheduler = Scheduler(GraphSpec((StageSpec("read", ("root", "more")),), ("more",), (stream,)))
    scheduler.handle_event(Start(roots=(Output("more", data("one")),)))
    scheduler.handle_event(Hold(("read",)))
    scheduler.handle_event(BundleDone(0, 1))
    assert state_of(scheduler) == (True, Phase.RUNNING)
    scheduler.handle_event(Hold())
    assert state_of(scheduler) == (False, Phase.DONE)


def test_hold_event_for_an_unknown_stage_or_a_section_raises_illegal_event() -> None:
    with pytest.raises(IllegalEvent):
        reading().handle_event(Hold(("elsewhere",)))
    section = GraphSpec(
        (
            StageSpec("read", ("root",), ("made",), spans=True),
            StageSpec("write", ("made",), spans=True),
        ),
        ("root",),
    )
    with pytest.raises(IllegalEvent):
        reading(section).handle_event(Hold(("write",)))
