"""Tests of every present and every missing entry of the transition tables."""

from __future__ import annotations

import pickle
from typing import Any

import attrs
import pytest

from beam_runner_engine.scheduler.commands import FailJob, FinishJob, OpenBundles, SplitBundle
from beam_runner_engine.scheduler.errors import IllegalEvent
from beam_runner_engine.scheduler.events import (
    Abort,
    BundleDone,
    BundleFailed,
    Cancel,
    Drain,
    Event,
    FailureKind,
    Hold,
    Output,
    Progress,
    Redeliver,
    Residual,
    SectionRefused,
    SplitDone,
    Start,
    Tick,
    YieldRequested,
)
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, Limits, Pauses, StageSpec
from beam_runner_engine.scheduler.transitions import (
    BUNDLE_TABLE,
    JOB_TABLE,
    BundleState,
    Phase,
    Reaction,
)

from .samples import data, only

GRAPH = GraphSpec((StageSpec("read", ("root",), splittable=True),), ("root",))
SECTION = GraphSpec(
    (
        StageSpec("read", ("root",), ("made",), spans=True),
        StageSpec("write", ("made",), spans=True),
    ),
    ("root",),
)

JOB_EVENTS = {
    Start: Start(),
    Tick: Tick(5),
    BundleDone: BundleDone(0, 1),
    BundleFailed: BundleFailed(0, 1, "a cause"),
    SectionRefused: SectionRefused(0, 1, "a reason"),
    Progress: Progress(0, 1, 0.0, 0),
    YieldRequested: YieldRequested(0, 1),
    SplitDone: SplitDone(0, 1),
    Hold: Hold(("read",)),
    Redeliver: Redeliver("read", (data("again"),)),
    Drain: Drain(),
    Cancel: Cancel(),
    Abort: Abort("a reason"),
}


def in_phase(phase: Phase, graph: GraphSpec = GRAPH) -> Scheduler:
    """Returns a scheduler in a phase. If the phase isn't final, bundle 0 is open, with a pending
    split if possible.
    """
    scheduler = Scheduler(graph)
    if phase is Phase.NEW:
        return scheduler
    scheduler.handle_event(Start(roots=(Output("root", data("d")),)))
    ways: dict[Phase, tuple[Event, ...]] = {
        Phase.RUNNING: (Progress(0, 1, 0.1, 60_000),),
        Phase.DRAINING: (Drain(),),
        Phase.DONE: (BundleDone(0, 1),),
        Phase.DRAINED: (Drain(), BundleDone(0, 1)),
        Phase.CANCELLED: (Cancel(),),
        Phase.FAILED: (Abort("a reason"),),
    }
    for event in ways[phase]:
        scheduler.handle_event(event)
    assert scheduler.phase is phase
    return scheduler


def graph_for(kind: type) -> GraphSpec:
    """Returns a job in which an event of this kind can occur."""
    return SECTION if kind is SectionRefused else GRAPH


@pytest.mark.parametrize("event", JOB_EVENTS.values(), ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("phase", Phase)
def test_job_event_follows_the_transition_table(phase: Phase, event: object) -> None:
    scheduler = in_phase(phase, graph_for(type(event)))
    before = pickle.dumps(scheduler)
    transition = JOB_TABLE.get((phase, type(event)))
    if transition is None:
        with pytest.raises(IllegalEvent, match=f"{type(event).__name__}.*{phase.value}"):
            scheduler.handle_event(event)  # type: ignore[arg-type]
        assert pickle.dumps(scheduler) == before
    elif transition.reaction is Reaction.IGNORE:
        assert scheduler.handle_event(event) == ()  # type: ignore[arg-type]
        assert pickle.dumps(scheduler) == before
    else:
        scheduler.handle_event(event)  # type: ignore[arg-type]
        assert scheduler.phase in transition.to
        splitting = isinstance(event, Progress | YieldRequested)
        assert (pickle.dumps(scheduler) == before) is splitting


def test_terminal_phase_ignores_all_events() -> None:
    for (phase, _), transition in JOB_TABLE.items():
        if phase.has_ended:
            assert transition.to == (phase,)
            assert transition.reaction is Reaction.IGNORE


def in_bundle_state(state: BundleState, graph: GraphSpec = GRAPH) -> Scheduler:
    pause = 1_000 if state is BundleState.PAUSED else 0
    scheduler = Scheduler(graph, Limits(user_attempts=2, pauses=Pauses(pause, pause)))
    scheduler.handle_event(Start(roots=(Output("root", data("d")),)))
    if state is BundleState.SPLITTING:
        only(scheduler.handle_event(Progress(0, 1, 0.1, 60_000)), SplitBundle)
    if state in (BundleState.CLOSED, BundleState.PAUSED):
        scheduler.handle_event(BundleFailed(0, 1, "a cause"))
    return scheduler


@pytest.mark.parametrize(
    "kind", [BundleDone, BundleFailed, SectionRefused, Progress, YieldRequested, SplitDone]
)
@pytest.mark.parametrize("state", BundleState)
def test_bundle_event_follows_the_transition_table(state: BundleState, kind: type) -> None:
    graph = GRAPH if state is BundleState.SPLITTING else graph_for(kind)
    scheduler = in_bundle_state(state, graph)
    event: Any = JOB_EVENTS[kind]
    if state is BundleState.PAUSED:
        event = attrs.evolve(event, attempt=2)
    before = pickle.dumps(scheduler)
    transition = BUNDLE_TABLE.get((state, kind))
    if transition is None:
        with pytest.raises(IllegalEvent, match=f"{kind.__name__}.*{state.value}"):
            scheduler.handle_event(event)
        assert pickle.dumps(scheduler) == before
    elif transition.reaction is Reaction.IGNORE:
        assert scheduler.handle_event(event) == ()
        assert pickle.dumps(scheduler) == before
    else:
        scheduler.handle_event(event)
        assert pickle.dumps(scheduler) != before


def test_job_after_its_last_commit_is_done() -> None:
    scheduler = Scheduler(GRAPH)
    opened = only(scheduler.handle_event(Start(roots=(Output("root", data("d")),))), OpenBundles)
    assert [bundle.inputs[0].data.ref for bundle in opened.bundles] == ["d"]
    assert only(scheduler.handle_event(BundleDone(0, 1)), FinishJob).outcome.value == "done"


def test_job_without_data_ends_immediately() -> None:
    assert only(Scheduler(GRAPH).handle_event(Start()), FinishJob).outcome.value == "done"


def test_attempts_are_limited_by_failure_kind() -> None:
    scheduler = Scheduler(GRAPH, Limits(user_attempts=2, outside_attempts=3))
    scheduler.handle_event(Start(roots=(Output("root", data("d")),)))
    for attempt in (1, 2):
        event = BundleFailed(0, attempt, f"lost {attempt}", FailureKind.OUTSIDE)
        again = only(scheduler.handle_event(event), OpenBundles).bundles[0]
        assert (again.number, again.attempt) == (0, attempt + 1)
    scheduler.handle_event(BundleFailed(0, 3, "ValueError: one"))
    failed = only(scheduler.handle_event(BundleFailed(0, 4, "ValueError: two")), FailJob)
    assert failed.reason == ("stage 'read' failed after 4 attempts (user code): ValueError: two")
    assert failed.causes == ("lost 1", "lost 2", "ValueError: one", "ValueError: two")
    assert scheduler.phase is Phase.FAILED


def test_bundle_with_a_residual_does_not_end_the_job() -> None:
    scheduler = Scheduler(GRAPH)
    scheduler.handle_event(Start(roots=(Output("root", data("d")),)))
    again = only(
        scheduler.handle_event(BundleDone(0, 1, residuals=(Residual(data("r")),))), OpenBundles
    )
    assert again.bundles[0].inputs[0].data.ref == "r"
