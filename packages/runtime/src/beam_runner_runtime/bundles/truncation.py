"""Truncation of restrictions, as part of a drain: the SDK says what is left, in a bundle of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs
from beam_runner_data.rows.row import elements_row
from beam_runner_data.rows.written import element_data
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.chunks import ElementChunk, OutputChunk
from beam_runner_model.windows import Window
from beam_runner_planner.plan import TruncationPlan
from beam_runner_worker.ports import Harness, SideInputReader, StageHarness

from beam_runner_runtime.bundles.bundle_data import FolderData
from beam_runner_runtime.bundles.inputs import element_chunks


@attrs.define(eq=False)
class Truncation:
    """Truncates the restrictions that a stage is given."""

    _plan: TruncationPlan
    _harness: Harness
    _side_inputs: SideInputReader
    _folder: Path

    def truncate(self, inputs: Iterable[Input], name: str) -> tuple[Input, ...]:
        """The inputs of a bundle with what is left of those that must be truncated.

        Args:
            inputs: of the bundle.
            name: unique to this attempt at it.

        Raises:
            BundleFailed: user code raised.
            HarnessError: the SDK was lost.
        """
        left: list[Input] = []
        for number, one in enumerate(inputs):
            if not one.truncate:
                left.append(one)
            elif self._plan.spec is not None:
                left += self._ask(one, f"{name}/truncated/{number}")
            elif not self._plan.endless:
                left.append(_whole(one.data, one))
        return tuple(left)

    def _ask(self, one: Input, name: str) -> Iterable[Input]:
        spec = self._plan.spec
        assert spec is not None
        harness: StageHarness = self._harness.stage(spec, self._side_inputs)
        port = _Collected(name, one.data.facts.windows)
        chunks = element_chunks(FolderData(self._folder).rows, (one,))
        harness.process_bundle(name, chunks, {spec.outputs[0].transform_id: port})
        return [_whole(data, one) for data in port.data]


def _whole(left: Data, one: Input) -> Input:
    """Returns what is left of a truncated input: all of that is processed."""
    return attrs.evolve(one, data=left, truncate=False, whole=True)


class _Collected:
    """An output port that keeps what it is given, as data that tells these windows."""

    def __init__(self, name: str, windows: frozenset[Window] | None) -> None:
        self._name = name
        self._windows = windows
        self.data: list[Data] = []

    def write(self, chunk: OutputChunk) -> None:
        """Takes elements."""
        assert isinstance(chunk, ElementChunk)
        data = element_data(f"{self._name}/{len(self.data)}", elements_row(0, chunk))
        facts = attrs.evolve(data.facts, windows=self._windows)
        self.data.append(attrs.evolve(data, facts=facts))
