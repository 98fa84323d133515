"""Tests that invalid graphs raise errors that name the stage."""

from __future__ import annotations

import pytest

from beam_runner_engine.scheduler.errors import GraphError
from beam_runner_engine.scheduler.graph import compile_graph
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    AddElements,
    AdvanceProcessingTime,
    AdvanceWatermark,
    GraphSpec,
    Limits,
    SideInputSpec,
    StageKind,
    StageSpec,
    TestStreamSpec,
)

from .samples import data


def test_stage_number_is_greater_than_the_numbers_of_its_input_stages() -> None:
    graph = compile_graph(
        GraphSpec(
            (
                StageSpec("last", ("b",), side_inputs=(SideInputSpec("side", "c"),)),
                StageSpec("middle", ("a",), ("b", "c")),
                StageSpec("first", ("root",), ("a",)),
            ),
            ("root",),
        )
    )
    assert [stage.name for stage in graph.stages] == ["first", "middle", "last"]
    assert graph.collections["c"].side_consumers == ((2, 0),)
    assert graph.collections["b"].producers == (1,)


def stream(*steps: object) -> TestStreamSpec:
    return TestStreamSpec("script", ("t",), steps)  # type: ignore[arg-type]


SINK = StageSpec("sink", ("t",))


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (GraphSpec((StageSpec("a", ("r",)), StageSpec("a", ("r",))), ("r",)), "2 stages named 'a'"),
        (GraphSpec((StageSpec("a", ()),)), "'a' has no input"),
        (GraphSpec((StageSpec("a", ("r", "r")),), ("r",)), "2 inputs of stage 'a'.* named 'r'"),
        (GraphSpec((StageSpec("a", ("r",)),)), "'a' reads 'r', but no stage"),
        (GraphSpec((StageSpec("a", ("r",)),), ("r", "r")), "'r' occurs more than once"),
        (
            GraphSpec((StageSpec("a", ("y",), ("x",)), StageSpec("b", ("x",), ("y",)))),
            r"cycle .*: \['a', 'b'\]",
        ),
        (
            GraphSpec(
                (
                    StageSpec("a", ("r",), ("x",), side_inputs=(SideInputSpec("s", "y"),)),
                    StageSpec("b", ("x",), ("y",)),
                ),
                ("r",),
            ),
            "cycle",
        ),
        (
            GraphSpec((StageSpec("a", ("r",), kind=StageKind.GROUPING, splittable=True),), ("r",)),
            "'a' is a GROUPING stage",
        ),
        (
            GraphSpec((StageSpec("a", ("r",), kind=StageKind.STATEFUL, splittable=True),), ("r",)),
            "'a' is keyed, .*splittable",
        ),
        (
            GraphSpec((SINK,), test_streams=(stream(AdvanceProcessingTime(-1)),)),
            "moves processing time backward",
        ),
        (
            GraphSpec(
                (SINK,),
                test_streams=(stream(AdvanceWatermark("t", 5), AdvanceWatermark("t", 4)),),
            ),
            "watermark of 't' backward to 4 ms",
        ),
        (
            GraphSpec((SINK,), test_streams=(stream(AdvanceWatermark("u", 5)),)),
            "'u', which is not an output",
        ),
        (
            GraphSpec(
                (StageSpec("sink", ("t",), kind=StageKind.GROUPING),),
                test_streams=(stream(AddElements("t", data("d"))),),
            ),
            "'d' of collection 't' has no key shard",
        ),
    ],
)
def test_invalid_graph_raises_graph_error(graph: GraphSpec, why: str) -> None:
    with pytest.raises(GraphError, match=why):
        Scheduler(graph)


def test_scheduler_limit_below_one_raises_value_error() -> None:
    with pytest.raises(ValueError, match="parallelism must be at least 1, not 0"):
        Limits(parallelism=0)
