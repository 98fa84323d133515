"""A small runner of stateful stages for tests: state in dictionaries, and timers that fire after
all input is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import apache_beam as beam
import attrs
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from beam_runner_model.bundles import BundleResult
from beam_runner_model.chunks import (
    ElementChunk,
    FlushBarrier,
    InputChunk,
    StageTimer,
    StateCell,
    TimerChunk,
)
from beam_runner_model.stages import HarnessStage
from beam_runner_urns import transforms as urns
from tiny_host import TinyHost

from beam_runner_worker.ports import Harness

TimerId = tuple[str, str, str, bytes, tuple[bytes, ...]]


class ToyState:
    """User state of one stage, for any number of bundles.

    Attributes:
        bags: bags by cell.
        maps: values of each key by cell.
        lists: pairs of sort key and value by cell.
        timers: set timers by identity.
        changes: set and cleared timers in order.
        gets: number of reads.
    """

    def __init__(self) -> None:
        self.bags: dict[StateCell, bytes] = defaultdict(bytes)
        self.maps: dict[StateCell, dict[bytes, bytes]] = defaultdict(dict)
        self.lists: dict[StateCell, list[tuple[int, bytes]]] = defaultdict(list)
        self.timers: dict[TimerId, StageTimer] = {}
        self.changes: list[StageTimer] = []
        self.gets = 0

    def read_bag(self, cell: StateCell) -> bytes:
        self.gets += 1
        return self.bags[cell]

    def append_to_bag(self, cell: StateCell, values: bytes) -> None:
        self.bags[cell] += values

    def replace_bag(self, cell: StateCell, values: bytes) -> None:
        raise AssertionError("SDKs clear and append")

    def clear_cell(self, cell: StateCell) -> None:
        for cells in (self.bags, self.maps, self.lists):
            cells.pop(cell, None)

    def read_map_keys(self, cell: StateCell) -> bytes:
        return b"".join(self.maps[cell])

    def read_map_values(self, cell: StateCell, map_key: bytes) -> bytes:
        return self.maps[cell].get(map_key, b"")

    def append_map_values(self, cell: StateCell, map_key: bytes, values: bytes) -> None:
        self.maps[cell][map_key] = self.read_map_values(cell, map_key) + values

    def remove_map_key(self, cell: StateCell, map_key: bytes) -> None:
        self.maps[cell].pop(map_key, None)

    def read_ordered_values(
        self, cell: StateCell, start: int, end: int
    ) -> Iterator[tuple[int, bytes]]:
        held = sorted(self.lists[cell], key=lambda pair: pair[0])
        yield from (pair for pair in held if start <= pair[0] < end)

    def insert_ordered_value(self, cell: StateCell, sort_key: int, value: bytes) -> None:
        self.lists[cell].append((sort_key, value))

    def remove_ordered_values(self, cell: StateCell, start: int, end: int) -> None:
        self.lists[cell] = [pair for pair in self.lists[cell] if not start <= pair[0] < end]

    def set_timer(self, timer: StageTimer) -> None:
        self.changes.append(timer)
        name = (timer.transform_id, timer.family, timer.tag, timer.key, timer.windows)
        self.timers.pop(name, None)
        if timer.fire_at is not None:
            self.timers[name] = timer

    def fire_all_timers(self, inputs: Iterable[InputChunk]) -> Iterator[InputChunk]:
        """Yields the input, then due timers one by one, until none is left."""
        yield from inputs
        yield FlushBarrier()
        while self.timers:
            name, due = min(self.timers.items(), key=lambda item: item[1].fire_at or 0)
            del self.timers[name]
            yield TimerChunk((due,))
            yield FlushBarrier()


class StatefulHost(TinyHost):
    """A TinyHost whose only stateful stage gets state, and fires all its timers.

    Attributes:
        state: state of the stateful stage.
        one_by_one: whether each element of the stateful stage gets a separate bundle.
        stateful: result of the stateful stage.
    """

    def __init__(self, pipeline: beam.Pipeline, *, one_by_one: bool = False) -> None:
        super().__init__(pipeline)
        self.state = ToyState()
        self.one_by_one = one_by_one
        self.stateful: BundleResult | None = None

    def run_stage(self, spec: HarnessStage, harness: Harness) -> None:
        if not is_stateful(spec):
            super().run_stage(spec, harness)
            return
        stage = harness.get_stage_harness(spec, self.side_inputs(spec))
        inputs = self.inputs(spec)
        for bundle in map(_get_single_stage, _elements(inputs)) if self.one_by_one else [inputs]:
            self.stateful = stage.process_bundle(
                "bundle", self.state.fire_all_timers(bundle), self.outputs(spec), self.state
            )


def _elements(chunks: Iterable[InputChunk]) -> Iterator[ElementChunk]:
    for chunk in chunks:
        assert isinstance(chunk, ElementChunk)
        for number in range(chunk.count):
            yield attrs.evolve(chunk, first=number, last=number + 1)


def _get_single_stage(chunk: ElementChunk) -> list[InputChunk]:
    return [chunk]


def is_stateful(spec: HarnessStage) -> bool:
    """Returns whether a transform of the stage has state or timers."""
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(spec.descriptor)
    payloads = [
        beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
        for transform in descriptor.transforms.values()
        if transform.spec.urn == urns.PAR_DO
    ]
    return any(payload.state_specs or payload.timer_family_specs for payload in payloads)
