"""Truncation of restrictions for a drain: the SDK truncates them in a separate bundle, before the
stage processes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import attrs
from beam_runner_data.rows.row import build_element_row
from beam_runner_data.rows.written import build_inline_data
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.chunks import ElementChunk, OutputChunk
from beam_runner_model.windows import Window
from beam_runner_planner.plan import TruncationPlan
from beam_runner_worker.ports import Harness, SideInputReader, StageHarness

from beam_runner_runtime.bundles.bundle_data import FolderData
from beam_runner_runtime.bundles.inputs import read_element_chunks


@attrs.define(eq=False)
class InputTruncator:
    """Object that truncates the restrictions in the input of a stage's bundles."""

    _plan: TruncationPlan
    _harness: Harness
    _side_inputs: SideInputReader
    _folder: Path

    def truncate_inputs(self, inputs: Iterable[Input], name: str) -> tuple[Input, ...]:
        """Returns the inputs of a bundle, in which the restrictions that a drain marked are
        truncated.

        Args:
            name: name that is unique to this bundle attempt.

        Raises:
            BundleFailed: User code raised an exception.
            HarnessError: The connection to the SDK was lost.
        """
        left: list[Input] = []
        for number, one in enumerate(inputs):
            if not one.truncate:
                left.append(one)
            elif self._plan.spec is not None:
                left += self._truncate_input(one, f"{name}/truncated/{number}")
            elif not self._plan.endless:
                left.append(_mark_drain_exempt(one.data, one))
        return tuple(left)

    def _truncate_input(self, one: Input, name: str) -> Iterable[Input]:
        spec = self._plan.spec
        assert spec is not None
        harness: StageHarness = self._harness.get_stage_harness(spec, self._side_inputs)
        port = _CollectingPort(name, one.data.facts.windows)
        chunks = read_element_chunks(FolderData(self._folder).read_rows, (one,))
        harness.process_bundle(name, chunks, {spec.outputs[0].transform_id: port})
        return [_mark_drain_exempt(data, one) for data in port.data]


def _mark_drain_exempt(left: Data, one: Input) -> Input:
    """Returns a truncated input with a marker, so that the drain doesn't truncate this input again."""
    return attrs.evolve(one, data=left, truncate=False, whole=True)


class _CollectingPort:
    """Output port that collects the truncated restrictions as input data."""

    def __init__(self, name: str, windows: frozenset[Window] | None) -> None:
        self._name = name
        self._windows = windows
        self.data: list[Data] = []

    def write(self, chunk: OutputChunk) -> None:
        """Collects the elements of a chunk."""
        assert isinstance(chunk, ElementChunk)
        data = build_inline_data(f"{self._name}/{len(self.data)}", build_element_row(0, chunk))
        facts = attrs.evolve(data.facts, windows=self._windows)
        self.data.append(attrs.evolve(data, facts=facts))
