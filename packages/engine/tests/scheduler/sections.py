"""Sections (stages that run as one bundle) in the simulated caller, which runs the stages one after
another in memory.
"""

from __future__ import annotations

import attrs
from beam_runner_model.times import MAX_TIMESTAMP

from beam_runner_engine.scheduler.commands import Bundle, Input, SectionStageInput
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Output, SectionRefused

from .promises import Promises
from .usercode import Keep, Result


@attrs.frozen
class SectionResult:
    """Result of a section: the commits of its stages, by stage, and the resulting event."""

    results: list[tuple[str, Result]]
    event: BundleDone


class SectionRunner(Promises):
    """Runner of the bundles of sections (stages that run as one bundle)."""

    def run_section(self, bundle: Bundle, most: int) -> SectionResult | SectionRefused:
        made: dict[str, list[Data]] = {}
        results: list[tuple[str, Result]] = []
        for part in bundle.parts:
            for one in self.bundles_of(bundle, part, made):
                result = self.run(one, most)
                if result.event.residuals:
                    return SectionRefused(bundle.number, bundle.attempt, "it has residuals")
                assert result.keep in (None, Keep()), "something is left in a shard"
                results.append((part.stage, result))
                for output in result.event.outputs:
                    made.setdefault(output.collection, []).append(output.data)
        inner = self.inner_of(bundle)
        ends = tuple(
            Output(name, data) for name in made if name not in inner for data in made[name]
        )
        event = BundleDone(bundle.number, bundle.attempt, ends, finalize=bundle.number % 2 == 0)
        return SectionResult(results, event)

    def bundles_of(
        self, bundle: Bundle, part: SectionStageInput, made: dict[str, list[Data]]
    ) -> list[Bundle]:
        """Returns the bundles of a stage inside the section; a keyed stage has one bundle for each
        shard.
        """
        spec = self.stages[part.stage]
        inner = [Input(data) for name in spec.inputs for data in made.get(name, ())]
        inputs = part.inputs or tuple(inner)
        shards = sorted({one.data.facts.shard or 0 for one in inputs}) if spec.is_keyed else [None]
        return [
            attrs.evolve(
                bundle,
                stage=part.stage,
                shard=shard,
                inputs=tuple(
                    one for one in inputs if shard is None or one.data.facts.shard == shard
                ),
                side_inputs=part.side_inputs,
                input_watermark=part.input_watermark,
                parts=(),
            )
            for shard in shards
        ]

    def inner_of(self, bundle: Bundle) -> set[str]:
        """Returns the collections that are written and read inside a section."""
        specs = [self.stages[part.stage] for part in bundle.parts]
        read = {name for spec in specs for name in spec.inputs}
        return {name for spec in specs for name in spec.outputs if name in read}

    def check_section_opening(self, bundle: Bundle) -> None:
        members = {part.stage for part in bundle.parts}
        assert len(members) == len(bundle.parts) >= 2
        assert not bundle.inputs
        assert bundle.stage == bundle.parts[0].stage
        others = [one for one in self.open.values() if one.number != bundle.number]
        assert not members & {one.stage for one in others}, "begun beside its section"
        done = {one.bundle for one in self.log if isinstance(one, BundleDone)}
        assert not members & {self.opened[number] for number in done}, "begun before its section"
        inner = self.inner_of(bundle)
        assert inner, "a section without anything within it"
        readers = [name for stage in self.graph.stages for name in stage.inputs]
        sides = {side.collection for stage in self.graph.stages for side in stage.side_inputs}
        for name in inner:
            assert readers.count(name) == 1
            assert name not in sides
            writers = {stage.name for stage in self.graph.stages if name in stage.outputs}
            assert writers <= members, "another stage writes what is within a section"
        for part in bundle.parts:
            self.check_part(part, inner)
        read = {one.data.ref.number for part in bundle.parts for one in part.inputs}
        assert read.isdisjoint(self.released), "data read after its release"

    def check_part(self, part: SectionStageInput, inner: set[str]) -> None:
        spec = self.stages[part.stage]
        assert spec.spans
        if inner.isdisjoint(spec.inputs):
            assert (
                self.scheduler.create_stage_report(part.stage).upstream_watermark == MAX_TIMESTAMP
            )
        else:
            assert not part.inputs
            assert inner.issuperset(spec.inputs)
            assert not spec.splittable
        for side in spec.side_inputs:
            makers = [one.name for one in self.graph.stages if side.collection in one.outputs]
            for maker in makers:
                report = self.scheduler.create_stage_report(maker)
                assert report.output_watermark == MAX_TIMESTAMP, "side input read too early"
            if self.late_sources or side.replaces or not makers:
                continue
            given = {one.window: one.data for one in part.side_inputs if one.name == side.name}
            for window, data in given.items():
                assert data == tuple(
                    one
                    for one in self.side_data.get(side.collection, ())
                    if window in (one.facts.windows or ())
                )
