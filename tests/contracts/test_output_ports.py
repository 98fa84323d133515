"""Tests that every output port accepts the chunks that a harness writes for the edge of its plan.

The resulting data contains all metadata that the scheduler needs for the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import pvalue
from apache_beam.coders import VarIntCoder
from apache_beam.testing import test_stream
from apache_beam.transforms import userstate
from apache_beam.transforms.window import FixedWindows, TimestampCombiner
from beam_runner_data.rows.outputs import create_row_converter
from beam_runner_data.rows.written import RowBufferWriter
from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_model.chunks import ElementChunk, KeyedChunk, OutputChunk
from beam_runner_model.stages import OutputEdge, OutputKind
from beam_runner_model.window_coders import WindowCoder, encode_window
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow
from beam_runner_planner.plan import JobPlan
from plans import make_plan

SHARDS = 4
EARLIEST = 1234


def bounded(p: beam.Pipeline) -> None:
    pairs = p | beam.Create([("a", 1)])
    dealt = pairs | beam.Reshuffle()
    dealt | beam.GroupByKey() | beam.Map(str)
    dealt | "one" >> beam.Map(str)
    dealt | "two" >> beam.Map(lambda x, y, z: x, pvalue.AsList(pairs), pvalue.AsMultiMap(pairs))


def windowed(p: beam.Pipeline) -> None:
    pairs = p | beam.Create([("a", 1)]) | beam.WindowInto(FixedWindows(10))
    pairs | "end" >> beam.GroupByKey() | "text" >> beam.Map(str)
    latest = beam.WindowInto(
        FixedWindows(10), timestamp_combiner=TimestampCombiner.OUTPUT_AT_LATEST
    )
    pairs | "later" >> latest | "latest" >> beam.GroupByKey() | beam.Map(str)


def streaming(p: beam.Pipeline) -> None:
    pairs = (
        p | test_stream.TestStream().add_elements([("a", 1)]) | beam.WindowInto(FixedWindows(10))
    )
    pairs | beam.Reshuffle() | beam.GroupByKey() | beam.Map(str)
    pairs | "side" >> beam.Map(lambda x, y: x, pvalue.AsList(pairs)) | "after" >> beam.Map(str)
    pairs | "other" >> beam.Map(str)


class Stateful(beam.DoFn):
    COUNT = userstate.CombiningValueStateSpec("count", VarIntCoder(), sum)

    def process(self, element: Any, count: Any = beam.DoFn.StateParam(COUNT)) -> None:
        count.add(1)


def stateful(p: beam.Pipeline) -> None:
    p | beam.Create([("a", 1)]) | beam.ParDo(Stateful())


PIPELINES = (stateful, bounded, windowed, streaming)


def edges(plan: JobPlan) -> Iterator[tuple[OutputEdge, BufferPlan]]:
    for stage in plan.stages.values():
        for edge in stage.spec.outputs:
            yield edge, plan.buffers[stage.outputs[edge.transform_id]]


def chunk_for(edge: OutputEdge, buffer: BufferPlan) -> OutputChunk:
    """Returns a chunk of two elements, as a harness writes it to such an edge."""
    if edge.kind is OutputKind.KEYED:
        is_global = buffer.strategy is None or buffer.strategy.window_coder is WindowCoder.GLOBAL
        window = encode_window(GLOBAL_WINDOW if is_global else IntervalWindow(0, 10_000))
        times = [EARLIEST + 1, EARLIEST] if edge.timestamps else None
        return KeyedChunk(b"kl", [1, 2], b"vw", [1, 2], window, times)
    return ElementChunk(2, b"aabb", [2, 4], EARLIEST if edge.min_timestamp else None)


def test_output_port_cases_cover_all_buffer_kinds() -> None:
    kinds = {buffer.kind for build in PIPELINES for _, buffer in edges(make_plan(build))}
    assert kinds == set(BufferKind)


@pytest.mark.parametrize("build", PIPELINES)
def test_output_data_contains_the_statistics_for_the_scheduler(build: Any, tmp_path: Path) -> None:
    plan = make_plan(build)
    for number, (edge, buffer) in enumerate(edges(plan)):
        written = RowBufferWriter(buffer, SHARDS, tmp_path, f"{number}")
        create_row_converter(buffer.kind, SHARDS, 0, written.write).write(chunk_for(edge, buffer))
        outputs = written.close()
        assert sum(output.data.facts.count for output in outputs) == 2
        for output in outputs:
            facts = output.data.facts
            assert (facts.shard in range(SHARDS)) is buffer.kind.is_keyed
            if buffer.kind in (BufferKind.SIDE_ITERABLE, BufferKind.SIDE_MULTIMAP):
                assert facts.windows
            if plan.streaming:
                assert facts.min_timestamp in (EARLIEST, EARLIEST + 1)


def grouped_edges(build: Any) -> list[OutputEdge]:
    return [edge for edge, buffer in edges(make_plan(build)) if buffer.kind is BufferKind.GROUPED]


def test_output_edge_requests_event_times_if_grouping_needs_them() -> None:
    assert [edge.timestamps for edge in grouped_edges(bounded)] == [False]
    assert sorted(edge.timestamps for edge in grouped_edges(windowed)) == [False, True]
    assert [edge.timestamps for edge in grouped_edges(streaming)] == [True]
