"""Plans of a few stages, made by hand, and the encoded elements that flow through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

import attrs
from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.coders.coders import BytesCoder, GlobalWindowCoder, WindowedValueCoder
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_data.rows.refs import InlineRows, RowsRef
from beam_runner_data.rows.row import build_element_row
from beam_runner_engine.scheduler.commands import Bundle, Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.buffers import BufferPlan, SideInputUse
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.facts import DataStatistics
from beam_runner_model.stages import (
    HarnessStage,
    InputEdge,
    InputKind,
    JobContext,
    OutputEdge,
    OutputKind,
)
from beam_runner_planner.plan import JobPlan, StagePlan, TruncationPlan
from beam_runner_runtime.bundles.stage_context import StageContext
from beam_runner_runtime.channel.messages import JobWork
from beam_runner_storage.stores.spec import StoreSpec

_CODER = WindowedValueCoder(BytesCoder(), GlobalWindowCoder()).get_impl()


def encoded(value: bytes, timestamp_ms: int = 0) -> bytes:
    """Returns a windowed value in the global window, encoded as an SDK encodes it."""
    timed = WindowedValue(value, Timestamp(micros=timestamp_ms * 1000), (GlobalWindow(),))
    return bytes(_CODER.encode_nested(timed))


def chunk_of(values: Iterable[bytes], timestamp_ms: int = 0) -> ElementChunk:
    """Returns a chunk with these values and their end offsets."""
    parts = [encoded(value, timestamp_ms) for value in values]
    ends = list(accumulate(map(len, parts)))
    return ElementChunk(len(parts), b"".join(parts), ends, timestamp_ms)


def values_of(chunk: ElementChunk) -> list[bytes]:
    """Returns the selected values of a chunk."""
    stream: Any = create_InputStream(bytes(chunk.data))
    values = [_CODER.decode_from_stream(stream, True).value for _ in range(chunk.count)]
    assert stream.size() == 0
    return values[chunk.first : chunk.last]


def elements(name: str, *values: bytes) -> Data:
    """Returns data with these values inline."""
    row = build_element_row(0, chunk_of(values))
    facts = DataStatistics(len(values), len(row.data), 0, windows=None)
    return Data(InlineRows(name, ((row.kind, row.data),)), facts)


def stage(
    stage_id: str,
    input_buffer: str | None = None,
    outputs: Mapping[str, str] | None = None,
    side_inputs: tuple[SideInputUse, ...] = (),
    *,
    groups: bool = False,
    splittable: bool = False,
) -> StagePlan:
    """Returns a stage that reads a buffer, or an impulse; ``outputs`` as in `StagePlan`."""
    outputs = outputs or {}
    spec = HarnessStage(
        stage_id,
        f"the {stage_id} step",
        "environment",
        b"",
        InputEdge("source", InputKind.GROUPS if groups else InputKind.ELEMENTS),
        tuple(OutputEdge(sink, OutputKind.ELEMENTS) for sink in outputs),
    )
    impulse = encoded(b"") if input_buffer is None else b""
    truncation = TruncationPlan(None, endless=False) if splittable else None
    return StagePlan(spec, True, input_buffer, impulse, outputs, side_inputs, truncation=truncation)


def plan_of(stages: Iterable[StagePlan], buffers: Iterable[BufferPlan] = ()) -> JobPlan:
    """Returns a plan of these stages, named ``job-1``."""
    return JobPlan(
        JobContext("job-1", "name", "{}", {}),
        {one.stage_id: one for one in stages},
        {one.buffer_id: one for one in buffers},
    )


def work_of(plan: JobPlan, stage_id: str, shards: int = 4) -> StageContext:
    """Returns the description of a stage for a process."""
    return StageContext.create_for_stage(JobWork(plan, shards, StoreSpec("folder")), stage_id)


def bundle_of(*inputs: Data | Input, shard: int | None = None, **more: Any) -> Bundle:
    """Returns a bundle with these inputs, as the scheduler opens it."""
    bundle = Bundle(
        number=7,
        attempt=1,
        stage="stage",
        shard=shard,
        inputs=tuple(Input(one) if isinstance(one, Data) else one for one in inputs),
        side_inputs=(),
        input_watermark=0,
        end_watermark=0,
        output_watermark=0,
        processing_time=0,
    )
    return attrs.evolve(bundle, **more)


def cut(data: Data, first: int, last: int) -> Data:
    """Returns the elements from ``first`` to before ``last`` of some data."""
    ref: RowsRef = attrs.evolve(data.ref, first=first, last=last)
    return Data(ref, attrs.evolve(data.facts, count=last - first))
