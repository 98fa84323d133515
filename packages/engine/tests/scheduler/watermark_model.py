"""Model of all watermarks of a job, computed from pending data and holds only.

The model follows the rules in the docstring of the module `watermarks`. Its watermarks equal the
scheduler's watermarks after every event and after every update, because both are lower bounds for
the future of the same data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.windows import Window

from beam_runner_engine.scheduler.commands import Bundle, Input
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Output, Residual, SplitDone
from beam_runner_engine.scheduler.specs import GraphSpec, StageSpec

Part = tuple[int, Window]
"""Number of some data, and one of its windows."""


@attrs.frozen
class Pending:
    """Times (ms) at which pending data holds the input watermark and the output watermark."""

    input: int
    output: int | None

    @property
    def output_hold(self) -> int:
        return self.input if self.output is None else self.output


def parts_of(data: Data, windows: Iterable[Window] | None) -> Iterator[Part]:
    for window in data.facts.windows or () if windows is None else windows:
        yield data.ref.number, window


@attrs.define
class StageModel:
    """Watermarks (ms) and pending data of a stage."""

    upstream: int = MIN_TIMESTAMP
    input: int = MIN_TIMESTAMP
    output: int = MIN_TIMESTAMP
    pending: dict[Part, Pending] = attrs.field(factory=dict)

    @property
    def watermarks(self) -> tuple[int, int, int]:
        return self.upstream, self.input, self.output

    def add(self, data: Data, windows: Iterable[Window] | None, output: int | None = None) -> None:
        for part in parts_of(data, windows):
            self.pending[part] = Pending(data.facts.min_timestamp, output)

    def remove(self, inputs: Iterable[Input]) -> None:
        for one in inputs:
            for part in parts_of(one.data, one.windows):
                assert self.pending.pop(part, None), "data was processed that didn't wait"


class WatermarkModel:
    """Watermarks of the stages and collections of a job."""

    def __init__(self, graph: GraphSpec) -> None:
        self.stages: dict[str, StageModel] = {}
        self.collections: dict[str, int] = {}
        self.follow(graph)

    def follow(self, graph: GraphSpec) -> None:
        """Continues with another graph. Stages and collections of the same name keep watermarks."""
        self.graph = graph
        self.order = sort_stages(graph)
        self.stages = {
            stage.name: self.stages.get(stage.name, StageModel()) for stage in graph.stages
        }
        names = [*graph.roots, *(name for stage in graph.stages for name in stage.outputs)]
        self.collections = {name: self.collections.get(name, MIN_TIMESTAMP) for name in names}

    def rename(self, stages: Mapping[str, str], collections: Mapping[str, str]) -> None:
        self.stages = {stages.get(name, name): one for name, one in self.stages.items()}
        self.collections = {
            collections.get(name, name): one for name, one in self.collections.items()
        }

    def deliver(self, outputs: Iterable[Output], readers: Iterable[StageSpec]) -> None:
        known = list(readers)
        for output in outputs:
            for stage in known:
                if output.collection in stage.inputs:
                    self.stages[stage.name].add(output.data, None)

    def commit(self, bundle: Bundle, event: BundleDone) -> None:
        stage = self.stages[bundle.stage]
        stage.remove(bundle.inputs)
        self.return_work(stage, event.residuals)
        self.deliver(event.outputs, self.graph.stages)

    def split(self, bundle: Bundle, event: SplitDone) -> None:
        """Applies a split. A part of unknown origin has the earliest watermark of all inputs."""
        if not event.residuals:
            return
        stage = self.stages[bundle.stage]
        known = {
            one.data.ref.number: stage.pending[part].output
            for one in bundle.inputs
            for part in parts_of(one.data, one.windows)
        }
        told = [output for output in known.values() if output is not None]
        safe = min(told) if told and len(told) == len(known) else None
        stage.remove(bundle.inputs)
        for part in event.primary:
            stage.add(part.data, part.windows, known.get(part.data.ref.number, safe))
        self.return_work(stage, event.residuals)

    def return_work(self, stage: StageModel, residuals: Iterable[Residual]) -> None:
        for residual in residuals:
            stage.add(residual.data, residual.windows, residual.watermark)

    def advance(self, holds: Mapping[str, Iterable[int]]) -> None:
        """Advances all watermarks. `holds` contains the holds of the key shards, by stage."""
        self.advance_collections(self.graph.roots)
        for stage in self.order:
            model = self.stages[stage.name]
            upstream = min(self.collections[name] for name in stage.inputs)
            pending = model.pending.values()
            earliest = min((one.input for one in pending), default=MAX_TIMESTAMP)
            held = min(
                (*(one.output_hold for one in pending), *holds.get(stage.name, ())),
                default=MAX_TIMESTAMP,
            )
            model.upstream = max(model.upstream, upstream)
            model.input = max(model.input, min(upstream, earliest))
            model.output = max(model.output, min(upstream, held))
            self.advance_collections(stage.outputs)

    def advance_collections(self, names: Iterable[str]) -> None:
        for name in names:
            makers = [stage.name for stage in self.graph.stages if name in stage.outputs]
            earliest = min((self.stages[one].output for one in makers), default=MAX_TIMESTAMP)
            self.collections[name] = max(self.collections[name], earliest)


def sort_stages(graph: GraphSpec) -> list[StageSpec]:
    """Returns the stages in an order in which each stage follows the writers of its inputs."""
    left, order = list(graph.stages), []
    while left:
        written = {name for stage in left for name in stage.outputs}
        ready = [stage for stage in left if written.isdisjoint(stage.inputs)]
        order += ready
        left = [stage for stage in left if stage not in ready]
    return order
