"""Tests of states that can't be captured or can't continue in another graph."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from beam_runner_model.summary import ShardSummary
from beam_runner_model.windows import Window

from beam_runner_engine.scheduler.capture import capture_job_state
from beam_runner_engine.scheduler.commands import ReleaseData
from beam_runner_engine.scheduler.events import (
    BundleDone,
    Drain,
    Event,
    Output,
    Residual,
    Start,
)
from beam_runner_engine.scheduler.kept_state import Identities
from beam_runner_engine.scheduler.refusals import RefusalKind, TransferRefused
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    AdvanceWatermark,
    GraphSpec,
    StageKind,
    StageSpec,
    TestStreamSpec,
)
from beam_runner_engine.scheduler.transfer import transfer_job_state

from .samples import data, only
from .transfers import (
    KEYED,
    READ,
    SIDE,
    WRITE,
    capture,
    kinds,
    named,
    run,
    run_keyed,
    run_with_side_input,
    with_side_input,
)


def test_state_transfer_with_data_of_a_removed_stage_is_refused_or_drops_the_data() -> None:
    kept = capture(run(GraphSpec((READ, WRITE), ("root",))))
    kept_keyed = capture(run_keyed())
    other = GraphSpec((WRITE,), ("made",))
    known = Identities({"write": "write"}, {})
    with pytest.raises(TransferRefused) as refused:
        transfer_job_state(kept, other, known)
    assert kinds(refused) == {(RefusalKind.WORK_LEFT, "read")}
    _, commands = transfer_job_state(kept, other, known, dropped=frozenset({"read"}))
    assert [one.ref for one in only(commands, ReleaseData).data] == ["root"]
    with pytest.raises(TransferRefused) as refused:
        transfer_job_state(
            kept_keyed, GraphSpec((READ,), ("root",)), Identities({"read": "read"}, {})
        )
    assert kinds(refused) == {(RefusalKind.STATE_LEFT, "keyed")}


def refused_kinds(
    scheduler: Scheduler, graph: GraphSpec, **changes: Any
) -> set[tuple[RefusalKind, str]]:
    with pytest.raises(TransferRefused) as refused:
        transfer_job_state(capture(scheduler), graph, attrs.evolve(named(graph), **changes))
    return kinds(refused)


def test_state_transfer_to_a_new_side_input_of_an_ended_collection_is_refused() -> None:
    graph = GraphSpec(
        (StageSpec("make", ("root",), ("sides",)), StageSpec("main", ("more",))), ("root", "more")
    )
    scheduler = run(graph, BundleDone(0, 1))
    found = refused_kinds(scheduler, with_side_input(splittable=False), side_inputs={})
    assert found == {(RefusalKind.ENDED_SIDE_INPUT, "sides")}


def test_state_transfer_to_a_new_producer_of_an_ended_collection_is_refused() -> None:
    graph = GraphSpec(
        (StageSpec("make", ("root",), ("made",)), WRITE, StageSpec("other", ("more",))),
        ("root", "more"),
    )
    scheduler = run(graph, BundleDone(0, 1, (Output("made", data("one")),)))
    more = attrs.evolve(graph.stages[2], outputs=("made",))
    other = attrs.evolve(graph, stages=(*graph.stages[:2], more))
    assert refused_kinds(scheduler, other) == {(RefusalKind.ENDED_INPUT, "made")}
    both = attrs.evolve(WRITE, inputs=("made", "others"))
    more = attrs.evolve(more, outputs=("others",))
    other = attrs.evolve(graph, stages=(graph.stages[0], both, more))
    found = refused_kinds(scheduler, other, collections={"made": "made"})
    assert found == {(RefusalKind.ENDED_INPUT, "write")}


def test_state_transfer_to_a_stage_of_another_kind_is_refused() -> None:
    graph = GraphSpec((READ, KEYED), ("root",))
    other = GraphSpec(
        (attrs.evolve(READ, splittable=False), attrs.evolve(KEYED, kind=StageKind.GROUPING)),
        ("root",),
    )
    assert refused_kinds(run(graph), other) == {
        (RefusalKind.STAGE_KIND, "read"),
        (RefusalKind.STAGE_KIND, "keyed"),
    }


@pytest.mark.parametrize(
    ("changes", "kind", "identity"),
    [
        ({"stages": {"read": "read", "write": "read"}}, RefusalKind.AMBIGUOUS_IDENTITY, "read"),
        ({"stages": {"read": "read", "write": "wrote"}}, RefusalKind.UNKNOWN_IDENTITY, "wrote"),
    ],
    ids=["ambiguous", "unknown"],
)
def test_state_transfer_with_an_ambiguous_or_unknown_stage_identity_is_refused(
    changes: dict[str, Any], kind: RefusalKind, identity: str
) -> None:
    graph = GraphSpec((READ, WRITE), ("root",))
    assert (kind, identity) in refused_kinds(run(graph), graph, **changes)


def test_state_transfer_with_a_test_stream_or_a_section_is_refused() -> None:
    graph = GraphSpec((READ, WRITE), ("root",))
    stream = TestStreamSpec("stream", ("steps",), (AdvanceWatermark("steps", 5),))
    scripted = attrs.evolve(graph, test_streams=(stream,))
    assert refused_kinds(run(graph), scripted) == {(RefusalKind.TEST_STREAM, "stream")}
    spans = tuple(attrs.evolve(stage, spans=True) for stage in graph.stages)
    section = attrs.evolve(graph, stages=spans)
    assert {kind for kind, _ in refused_kinds(run(graph), section)} == {RefusalKind.SECTION}
    with pytest.raises(TransferRefused) as refused:
        capture(run(section))
    assert {kind for kind, _ in kinds(refused)} == {RefusalKind.SECTION}


@pytest.mark.parametrize("events", [(Drain(),), (BundleDone(0, 1),)], ids=["draining", "done"])
def test_state_capture_of_a_draining_or_finished_job_is_refused(events: tuple[Event, ...]) -> None:
    with pytest.raises(TransferRefused) as refused:
        capture(run(GraphSpec((READ, WRITE), ("root",)), *events))
    assert kinds(refused) == {(RefusalKind.PHASE, "")}


def test_state_capture_of_a_stage_without_an_identity_is_refused() -> None:
    scheduler = run(GraphSpec((READ, WRITE), ("root",)))
    with pytest.raises(TransferRefused) as refused:
        capture_job_state(scheduler.state, Identities({"read": "read"}, {}))
    assert kinds(refused) == {(RefusalKind.NO_IDENTITY, "write"), (RefusalKind.NO_IDENTITY, "made")}


class FailingMapping:
    """Window mapping of the caller that raises an error."""

    def map_window(self, main_window: Window | None) -> Window | None:
        raise ValueError("no such window")


def test_state_transfer_with_a_failing_window_mapping_is_refused() -> None:
    graph = with_side_input(side=attrs.evolve(SIDE, mapping=FailingMapping()))
    found = refused_kinds(run_with_side_input(), graph)
    assert found == {(RefusalKind.HOST_CODE, "main")}


def test_state_capture_of_a_job_that_failed_during_an_event_is_refused() -> None:
    """If the caller's code fails inside a commit, the state has lost a part of the commit."""
    graph = GraphSpec(
        (
            READ,
            StageSpec(
                "main",
                ("made",),
                side_inputs=(attrs.evolve(SIDE, mapping=FailingMapping(), collection="more"),),
            ),
        ),
        ("root", "more"),
    )
    scheduler = Scheduler(graph)
    scheduler.handle_event(Start(roots=(Output("root", data("root")),)))
    scheduler.handle_event(BundleDone(0, 1, (Output("made", data("one")),)))
    with pytest.raises(TransferRefused) as refused:
        capture(scheduler)
    assert kinds(refused) == {(RefusalKind.INTERRUPTED, "read")}


def test_state_transfer_to_a_graph_that_would_be_stuck_is_refused() -> None:
    """A shard holds the watermark without a wake-up, and its input has no writer any more."""
    graph = GraphSpec((READ, KEYED), ("root",))
    one = Output("made", data("one", 20, shard=3))
    rest = Residual(data("rest"), 1, 30)
    summary = ShardSummary({20: 1})
    scheduler = run(graph, BundleDone(0, 1, (one,), (rest,)), BundleDone(1, 1, summary=summary))
    alone = GraphSpec((KEYED,), ("made",))
    with pytest.raises(TransferRefused) as refused:
        transfer_job_state(capture(scheduler), alone, named(alone), dropped=frozenset({"read"}))
    assert kinds(refused) == {(RefusalKind.STUCK, "")}
