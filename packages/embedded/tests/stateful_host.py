"""Test runner of one stateful stage: state cells in dictionaries, and timers that the test
fires.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import coders
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.transforms import window
from apache_beam.utils import windowed_value
from beam_runner_model.chunks import (
    ElementChunk,
    FlushBarrier,
    InputChunk,
    StageTimer,
    StateCell,
    TimerChunk,
)
from mini_runner import EmptyArtifacts, Logs, Plan, Port, job
from phases import FUSING

from beam_runner_embedded._protos import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_embedded.harness import EmbeddedHarness

PHASES = (translations.annotate_stateful_dofns_as_roots, *FUSING)
GLOBAL = window.GlobalWindow()


class RecordingUserState:
    """User state. ``log`` contains every call in order."""

    def __init__(self) -> None:
        self.bags: dict[StateCell, bytes] = {}
        self.lists: dict[StateCell, list[tuple[int, bytes]]] = {}
        self.timers: list[StageTimer] = []
        self.log: list[str] = []

    def read_bag(self, cell: StateCell) -> bytes:
        self.log.append(f"read {cell.state_id}")
        return self.bags.get(cell, b"")

    def append_to_bag(self, cell: StateCell, values: bytes) -> None:
        self.log.append(f"append {cell.state_id}")
        self.bags[cell] = self.bags.get(cell, b"") + values

    def replace_bag(self, cell: StateCell, values: bytes) -> None:
        self.log.append(f"replace {cell.state_id}")
        self.bags[cell] = values

    def clear_cell(self, cell: StateCell) -> None:
        self.log.append(f"clear {cell.state_id}")
        self.bags.pop(cell, None)
        self.lists.pop(cell, None)

    def read_ordered_values(
        self, cell: StateCell, start: int, end: int
    ) -> Iterator[tuple[int, bytes]]:
        held = sorted(self.lists.get(cell, []), key=lambda pair: pair[0])
        return iter([pair for pair in held if start <= pair[0] < end])

    def insert_ordered_value(self, cell: StateCell, sort_key: int, value: bytes) -> None:
        self.lists.setdefault(cell, []).append((sort_key, value))

    def remove_ordered_values(self, cell: StateCell, start: int, end: int) -> None:
        self.lists[cell] = [pair for pair in self.lists[cell] if not start <= pair[0] < end]

    def set_timer(self, timer: StageTimer) -> None:
        self.timers.append(timer)

    def read_map_keys(self, cell: StateCell) -> bytes:
        raise AssertionError("Python has no maps")

    def read_map_values(self, cell: StateCell, map_key: bytes) -> bytes:
        raise AssertionError("Python has no maps")

    def append_map_values(self, cell: StateCell, map_key: bytes, values: bytes) -> None:
        raise AssertionError("Python has no maps")

    def remove_map_key(self, cell: StateCell, map_key: bytes) -> None:
        raise AssertionError("Python has no maps")


class StatefulStage:
    """The stage of a stateful DoFn with pairs as input.

    Attributes:
        cells: state of the stage, which persists between bundles.
    """

    def __init__(self, fn: beam.DoFn, pairs: type[Any] = tuple[str, int]) -> None:
        pipeline = beam.Pipeline()
        fixed = beam.WindowInto(window.FixedWindows(10))
        given = pipeline | beam.Impulse() | beam.Map(lambda x: x).with_output_types(pairs)
        out = given | fixed | "Stateful" >> beam.ParDo(fn).with_output_types(Any)
        # A side input is materialized unchanged.
        pipeline | "main" >> beam.Impulse() | beam.Map(lambda x, y: x, beam.pvalue.AsIter(out))
        plan = Plan(pipeline, phases=PHASES)
        (planned,) = (s for s in plan.stages if _is_stateful(s.spec.descriptor))
        self.harness = EmbeddedHarness(job(), EmptyArtifacts(), Logs())
        self.stage = self.harness.get_stage_harness(planned.spec, None)  # type: ignore[arg-type]
        self.cells = RecordingUserState()
        self._ports = planned.output_buffers
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(planned.spec.descriptor)
        (source,) = descriptor.transforms[planned.spec.input.transform_id].outputs.values()
        (written,) = (
            p
            for t in descriptor.transforms.values()
            if t.unique_name.startswith("Stateful")
            for p in t.outputs.values()
        )
        self.coder = plan.windowed_coder(source)
        self._out_coder = plan.windowed_coder(written)

    def elements(self, *pairs: Any, start: int = 0, micros: int = 0) -> ElementChunk:
        """Returns a chunk of pairs in the window with this start."""
        inside = (window.IntervalWindow(start, start + 10),)
        encode = self.coder.get_impl().encode_nested
        data = [encode(windowed_value.create(pair, micros, inside)) for pair in pairs]
        return ElementChunk(len(data), b"".join(data))

    def timer(self, set_before: StageTimer) -> TimerChunk:
        """Returns a due timer that was set before."""
        return TimerChunk((set_before,))

    def run(self, *chunks: InputChunk | Any) -> list[Any]:
        """Runs a bundle. A function among the chunks is called for chunks when its turn comes."""
        ports = {name: Port() for name in self._ports}
        self.stage.process_bundle("bundle", _resolve_chunks(chunks), ports, self.cells)
        found = []
        for port in ports.values():
            for chunk in port.chunks:
                found += _decode_elements(self._out_coder, chunk)
        return found


def _is_stateful(descriptor: bytes) -> bool:
    proto = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(descriptor)
    return any(
        beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload).state_specs
        or beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload).timer_family_specs
        for transform in proto.transforms.values()
        if transform.spec.urn == "beam:transform:pardo:v1"
    )


def _resolve_chunks(chunks: Iterable[Any]) -> Iterator[InputChunk]:
    for chunk in chunks:
        yield chunk() if callable(chunk) else chunk
        yield FlushBarrier()


def _decode_elements(coder: Any, chunk: Any) -> list[Any]:
    stream = coders.coder_impl.create_InputStream(bytes(chunk.data))
    decode = coder.get_impl().decode_from_stream
    return [decode(stream, True) for _ in range(chunk.count)]
