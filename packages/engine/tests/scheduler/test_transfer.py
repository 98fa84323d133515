"""Tests of capturing a job's state and continuing from it with another graph."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from beam_runner_model.times import MAX_TIMESTAMP

from beam_runner_engine.scheduler.capture import capture_job_state
from beam_runner_engine.scheduler.commands import Input, OpenBundles, ReleaseData, RequestTick
from beam_runner_engine.scheduler.events import (
    Abort,
    BundleDone,
    BundleFailed,
    Cancel,
    Event,
    FailureKind,
    Hold,
    Output,
    Residual,
    SplitDone,
    Tick,
)
from beam_runner_engine.scheduler.kept_state import Identities
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    GraphSpec,
    StageSpec,
)
from beam_runner_engine.scheduler.transfer import transfer_job_state
from beam_runner_engine.scheduler.transitions import Phase

from .samples import data, only
from .transfers import (
    KEYED,
    READ,
    SIDE,
    WINDOW,
    WRITE,
    capture,
    named,
    opened,
    run,
    run_keyed,
    run_with_side_input,
    with_side_input,
)


def test_state_transfer_to_another_graph_continues_unfinished_work() -> None:
    """Open bundles become pending work, delayed work keeps its due time, and bundle numbers continue."""
    graph = GraphSpec((READ, WRITE), ("root",))
    rest = Residual(data("rest"), delay=5, watermark=7, estimator_state="state")
    scheduler = run(graph, Tick(100), BundleDone(0, 1, (Output("made", data("one")),), (rest,)))
    other = GraphSpec(
        (StageSpec("output", ("through",)), attrs.evolve(READ, name="input", outputs=("through",))),
        ("root",),
    )
    known = Identities({"input": "read", "output": "write"}, {"through": "made"})
    roots = (Output("root", data("root again")),)
    state, commands = transfer_job_state(capture(scheduler), other, known, roots)
    assert opened(commands) == {"output": [["one"]]}
    assert only(commands, OpenBundles).bundles[0].number == 2
    assert only(commands, RequestTick).time == 105
    assert only(commands, ReleaseData).data == (roots[0].data,), "an impulse is given once"
    after = Scheduler.from_state(state)
    resumed = only(after.handle_event(Tick(105)), OpenBundles).bundles[0]
    assert [(one.data.ref, one.estimator_state) for one in resumed.inputs] == [("rest", "state")]
    assert after.create_stage_report("input").output_watermark == 7


@pytest.mark.parametrize(
    "end",
    [Cancel(), Abort("lost"), BundleFailed(0, 1, "a cause", FailureKind.PERMANENT)],
    ids=lambda end: type(end).__name__,
)
def test_state_transfer_from_a_failed_or_cancelled_job_continues_its_work(end: Event) -> None:
    graph = GraphSpec((READ, WRITE), ("root",))
    state, commands = transfer_job_state(capture(run(graph, end)), graph, named(graph))
    assert opened(commands) == {"read": [["root"]]}
    assert Scheduler.from_state(state).phase is Phase.RUNNING


def test_state_transfer_delivers_root_data_to_a_new_stage() -> None:
    graph = GraphSpec((READ, WRITE), ("root",))
    other = GraphSpec((READ, WRITE, StageSpec("new", ("more",))), ("root", "more"))
    roots = tuple(Output(name, data(name)) for name in other.roots)
    _, commands = transfer_job_state(capture(run(graph)), other, named(graph), roots)
    assert opened(commands) == {"read": [["root"]], "new": [["more"]]}


def test_transfer_to_the_same_graph_changes_nothing() -> None:
    kept = capture(run_with_side_input())
    graph = with_side_input()
    state, commands = transfer_job_state(kept, graph, named(graph))
    assert opened(commands) == {"main": [["more"]]}
    again = capture_job_state(state, named(graph))
    assert attrs.evolve(again, next_bundle=kept.next_bundle) == kept


def test_captured_state_contains_only_plain_records() -> None:
    """A later version must read the kept form, so the form has no object of the scheduler."""
    allowed = {"kept_state", "facts", "summary", "windows", "data", "specs"}
    found: set[str] = set()

    def walk(value: Any) -> None:
        if attrs.has(type(value)) or isinstance(value, enum.Enum):
            found.add(type(value).__module__.rpartition(".")[2])
        if attrs.has(type(value)):
            for field in attrs.fields(type(value)):
                walk(getattr(value, field.name))
        elif isinstance(value, tuple | frozenset):
            for one in value:
                walk(one)
        elif not isinstance(value, enum.Enum):
            assert value is None or isinstance(value, int | str | bytes | Mapping)

    walk(capture(run_with_side_input()))
    walk(capture(run_keyed()))
    assert "kept_state" in found
    assert found <= allowed


def test_state_transfer_preserves_holds_and_wake_ups_of_shards() -> None:
    graph = GraphSpec((READ, KEYED), ("root",))
    state, commands = transfer_job_state(capture(run_keyed()), graph, named(graph))
    assert opened(commands) == {}
    after = Scheduler.from_state(state)
    assert after.create_stage_report("keyed").output_watermark == 20
    after.handle_event(Tick(1))
    woken = only(after.handle_event(BundleDone(2, 1)), OpenBundles).bundles[0]
    assert (woken.shard, woken.inputs, woken.input_watermark) == (3, (), MAX_TIMESTAMP)


def test_state_transfer_with_a_woken_stage_opens_a_bundle_for_each_waiting_shard() -> None:
    graph = GraphSpec((READ, KEYED), ("root",))
    kept = capture(run_keyed())
    _, commands = transfer_job_state(kept, graph, named(graph), woken=frozenset({"keyed"}))
    (woken,) = only(commands, OpenBundles).bundles
    assert (woken.stage, woken.shard, woken.inputs, woken.end_watermark) == ("keyed", 3, (), 30)


def test_state_transfer_after_a_split_releases_shared_data_after_its_last_part() -> None:
    graph = GraphSpec((READ,), ("root",))
    split = SplitDone(0, 1, (Input(data("first"), whole=True),), (Residual(data("rest")),))
    state, _ = transfer_job_state(capture(run(graph, Hold(("read",)), split)), graph, named(graph))
    after = Scheduler.from_state(state)
    inputs = [one for bundle in after.open_bundles for one in bundle.inputs]
    assert {one.data.ref: one.whole for one in inputs} == {"first": True, "rest": False}
    released: list[Any] = []
    while after.open_bundles:
        for command in after.handle_event(BundleDone(after.open_bundles[0].number, 1)):
            released += command.data if isinstance(command, ReleaseData) else ()
    assert [one.ref for one in released] in (["first", "rest", "root"], ["rest", "first", "root"])


def test_state_transfer_preserves_side_input_windows_and_work_that_waits_for_them() -> None:
    graph = with_side_input()
    state, commands = transfer_job_state(capture(run_with_side_input()), graph, named(graph))
    (bundle,) = only(commands, OpenBundles).bundles
    assert bundle.inputs[0].windows == frozenset({WINDOW})
    assert [[one.ref for one in side.data] for side in bundle.side_inputs] == [["side"]]
    assert Scheduler.from_state(state).create_stage_report("main").blocked == 1


def test_state_transfer_moves_a_side_input_to_a_new_stage() -> None:
    graph = with_side_input()
    reader = StageSpec("reader", ("dealt",), side_inputs=(SIDE,))
    stages = (graph.stages[0], StageSpec("main", ("more",), ("dealt",)), reader)
    other = attrs.evolve(graph, stages=stages)
    known = Identities(
        {"make": "make", "main": "main"},
        {"sides": "sides"},
        {("reader", "side"): ("main", "side")},
    )
    state, commands = transfer_job_state(capture(run_with_side_input()), other, known)
    assert opened(commands) == {"main": [["more"]]}
    after = Scheduler.from_state(state)
    main = after.open_bundles[0].number
    dealt = Output("dealt", data("dealt", windows=(WINDOW,)))
    (bundle,) = only(after.handle_event(BundleDone(main, 1, (dealt,))), OpenBundles).bundles
    assert [[one.ref for one in side.data] for side in bundle.side_inputs] == [["side"]]


def test_state_transfer_to_a_stage_without_its_side_input_unblocks_the_work() -> None:
    graph = with_side_input()
    other = attrs.evolve(graph, stages=(graph.stages[0], StageSpec("main", ("more",))))
    _, commands = transfer_job_state(capture(run_with_side_input()), other, named(other))
    (bundle,) = only(commands, OpenBundles).bundles
    assert [(one.data.ref, one.windows) for one in bundle.inputs] == [("more", None)]
    assert [one.ref for one in only(commands, ReleaseData).data] == ["side"]


def test_state_transfer_to_a_side_input_of_another_collection_starts_it_empty() -> None:
    graph = with_side_input(side=attrs.evolve(SIDE, collection="others"))
    other = StageSpec("other", ("root",), ("others",))
    other_graph = attrs.evolve(graph, stages=(*graph.stages, other))
    kept = capture(run_with_side_input())
    known = attrs.evolve(named(graph), collections={"sides": "sides"})
    state, commands = transfer_job_state(kept, other_graph, known, (Output("root", data("root")),))
    assert opened(commands) == {"other": [["root"]]}
    assert Scheduler.from_state(state).create_stage_report("main").blocked == 2
