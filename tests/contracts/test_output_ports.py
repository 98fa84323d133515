"""Every port takes the chunks that a harness gives for the edge that the plan made for it."""

from __future__ import annotations

import pytest
from beam_runner_engine.values.strategy import MergeStatus, WindowingStrategy
from beam_runner_engine.values.timestamp_combiners import TimestampCombiner
from beam_runner_engine.values.window_coders import WindowCoder
from beam_runner_engine.values.window_fns import GlobalWindows
from beam_runner_worker.records import ElementChunk, KeyedChunk, OutputChunk, OutputEdge, OutputKind
from beam_spark_executor.plan import BufferKind
from beam_spark_executor.task.outputs import row_port
from beam_spark_executor.task.rows import Row
from beam_spark_executor.translation.descriptors import _output_edge

CHUNKS: dict[OutputKind, OutputChunk] = {
    OutputKind.ELEMENTS: ElementChunk(2, b"aabb"),
    OutputKind.CUT_ELEMENTS: ElementChunk(2, b"aabb", [2, 4]),
    OutputKind.KEYED: KeyedChunk(b"k", [1], b"v", [1], b"", [0]),
}


def edge_of(kind: BufferKind, combiner: TimestampCombiner) -> OutputEdge:
    strategy = WindowingStrategy(
        window_fn=GlobalWindows(),
        window_coder=WindowCoder.GLOBAL,
        merge_status=MergeStatus.NON_MERGING,
        timestamp_combiner=combiner,
    )
    return _output_edge("sink", "buffer", {"buffer": kind}, {"buffer": strategy})


@pytest.mark.parametrize("kind", list(BufferKind))
def test_a_port_takes_what_its_edge_asks_for(kind: BufferKind) -> None:
    edge = edge_of(kind, TimestampCombiner.LATEST)
    rows: list[Row] = []
    row_port(kind, 4, 0, rows.append).write(CHUNKS[edge.kind])
    assert rows
    assert all(0 <= row.shard < 4 for row in rows)


@pytest.mark.parametrize(
    ("combiner", "wanted"),
    [
        (TimestampCombiner.END_OF_WINDOW, False),
        (TimestampCombiner.EARLIEST, True),
        (TimestampCombiner.LATEST, True),
    ],
)
def test_event_times_are_asked_for_where_grouping_needs_them(
    combiner: TimestampCombiner, wanted: bool
) -> None:
    assert edge_of(BufferKind.GROUPED, combiner).timestamps is wanted
