"""Checks of the scheduler's guarantees against the records of the simulated caller."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.windows import Window

from beam_runner_engine.scheduler.commands import (
    Bundle,
    FailJob,
    FinishJob,
    Input,
    Outcome,
    SplitBundle,
)
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import (
    BundleDone,
    Event,
    Redeliver,
    SplitDone,
    Start,
)
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    AddElements,
    GraphSpec,
    Limits,
    SideInputReadiness,
    SideInputSpec,
    StageSpec,
)
from beam_runner_engine.scheduler.transitions import Phase

from .failing import Paused
from .usercode import ENDLESS, Element, Keep, Result, UserCode


def shards_of(bundle: Bundle) -> set[int | None]:
    """Returns the key shards that no other running bundle may process."""
    return {bundle.shard, *(one.data.facts.shard for one in bundle.inputs)}


class Promises(UserCode):
    """Checker of the scheduler's output. Each violation raises an AssertionError."""

    graph: GraphSpec
    limits: Limits
    scheduler: Scheduler
    late_sources: bool
    log: list[Event]
    end: FinishJob | FailJob | None
    open: dict[int, Bundle]
    opened: dict[int, str]
    paused: dict[int, Paused]
    asked: dict[int, SplitBundle]
    watermarks: dict[str, tuple[int, int, int]]
    committed: dict[str, dict[int, Element]]
    processed: dict[str, Counter[Any]]
    redelivered: dict[str, list[Element]]
    side_data: dict[str, list[Data]]
    released: set[int]
    pieces: dict[int, set[int]]
    finalized: list[int]
    finalizable: set[int]

    def check_opening(self, stage: str, bundle: Bundle) -> None:
        spec = self.stages[stage]
        assert bundle.stage == stage
        assert bundle.attempt == 1
        sections = [one for one in self.unfinished if one.parts]
        begun = {part.stage for one in sections for part in one.parts}
        assert stage not in begun, "begun beside its section"
        if spec.is_keyed:
            shards = shards_of(bundle)
            others = [one for one in self.unfinished if one.stage == stage]
            assert not any(shards & shards_of(one) for one in others), "a shard is open twice"
            if len(shards) > 1:
                assert spec.joint_shards
                size = sum(one.data.facts.size for one in bundle.inputs)
                assert size <= self.limits.joint_bytes
                assert bundle.inputs[0].data.facts.shard == bundle.shard
        else:
            assert bundle.inputs
        if spec.whole_input:
            assert self.watermarks[stage][0] == MAX_TIMESTAMP
        for one in bundle.inputs:
            assert one.data.ref.number not in self.released, "data read after its release"
            self.check_side_inputs(spec, one, bundle)
            if not self.late_sources:
                assert one.data.facts.min_timestamp >= bundle.input_watermark, "made late"

    def check_side_inputs(self, spec: StageSpec, one: Input, bundle: Bundle) -> None:
        known = one.data.facts.windows if one.windows is None else one.windows
        assert known is not None
        seen = {(side.name, side.window): side.data for side in bundle.side_inputs}
        for side in spec.side_inputs:
            makers = [
                name for name, stage in self.stages.items() if side.collection in stage.outputs
            ]
            for main_window in known:
                window = side.mapping.map_window(main_window)
                assert window is not None
                given = seen[side.name, window]
                assert not any(item.ref.number in self.released for item in given)
                if not makers:
                    continue
                watermark = self.watermark_of(side.collection)
                early = side.readiness is SideInputReadiness.FIRST_PANE and given
                assert early or watermark > window.max_timestamp(), "side input read too early"
                if not self.late_sources and not side.replaces:
                    assert given == tuple(
                        data
                        for data in self.side_data_of(spec.name, side)
                        if window in (data.facts.windows or ())
                    )

    def watermark_of(self, collection: str) -> int:
        """Returns the watermark of a collection that stages write."""
        makers = [name for name, stage in self.stages.items() if collection in stage.outputs]
        return min(self.watermarks[name][2] for name in makers)

    def side_data_of(self, stage: str, side: SideInputSpec) -> list[Data]:
        """Returns all data that a side input of a stage received."""
        return self.side_data.get(side.collection, [])

    def check_release(self, data: Data) -> None:
        number = data.ref.number
        assert number not in self.released, "released twice"
        for bundle in self.unfinished:
            assert all(one.data.ref.number != number for one in bundle.inputs)
            assert all(
                one.data.ref.number != number for part in bundle.parts for one in part.inputs
            )
            parts = (part.side_inputs for part in bundle.parts)
            for side in (*bundle.side_inputs, *chain.from_iterable(parts)):
                assert all(one.ref.number != number for one in side.data)
        assert self.pieces.get(number, set()) <= self.released, "its storage is still in use"
        self.released.add(number)

    @property
    def unfinished(self) -> list[Bundle]:
        """Returns the running bundles and the paused bundles."""
        return [*self.open.values(), *(one.bundle for one in self.paused.values())]

    def check_resumed(self, paused: Paused, bundle: Bundle) -> None:
        draining = self.scheduler.phase is Phase.DRAINING
        assert self.scheduler.now >= paused.due or draining, "a pause was cut short"
        assert bundle.attempt == paused.bundle.attempt + 1
        assert bundle.parts == paused.bundle.parts
        if not draining:
            # An attempt never mixes whole inputs with other inputs, which then get another bundle.
            whole = tuple(one for one in paused.bundle.inputs if one.whole)
            assert bundle.inputs in (paused.bundle.inputs, whole)

    def check_paused(self) -> None:
        """Checks that the due time of each paused bundle is known and not later than the rules
        allow.
        """
        known = {
            one.bundle.number: one.due for one in self.scheduler.list_retried_bundles() if one.due
        }
        assert known == {number: one.due for number, one in self.paused.items()}
        assert {one.number for one in self.scheduler.paused_bundles} == self.paused.keys()
        assert all(due > self.scheduler.now for due in known.values()), "a pause was not ended"
        if self.end is not None:
            return
        counts = Counter(
            stage
            for one in self.scheduler.paused_bundles
            for stage in [part.stage for part in one.parts] or [one.stage]
        )
        assert counts == {
            stage: paused
            for stage in self.stages
            if (paused := self.scheduler.create_stage_report(stage).paused)
        }

    def check_open(self) -> None:
        """Checks that a restarted caller would run the same bundles and request the same splits."""
        self.check_paused()
        assert {bundle.number: bundle for bundle in self.scheduler.open_bundles} == self.open
        assert {split.bundle: split for split in self.scheduler.open_splits} == self.asked

    def check_watermarks(self) -> None:
        for name in self.stages:
            report = self.scheduler.create_stage_report(name)
            before = self.watermarks.get(name, (MIN_TIMESTAMP,) * 3)
            after = (report.upstream_watermark, report.input_watermark, report.output_watermark)
            assert all(one <= two for one, two in zip(before, after, strict=True)), "went back"
            if after[2] > before[2]:
                for (stage, _), keep in self.keeps.items():
                    if stage == name:
                        for time, _count in self.summary(self.stages[name], keep).holds:
                            assert after[2] <= time, "output watermark beyond a hold"
            self.watermarks[name] = after

    def check_end(self) -> None:
        assert self.end is not None
        if not isinstance(self.end, FinishJob) or self.end.outcome is Outcome.CANCELLED:
            return
        assert not self.unfinished
        for name, spec in self.stages.items():
            self.check_exactly_once(name, spec)
            assert self.watermarks[name] == (MAX_TIMESTAMP,) * 3
        assert self.released == self.given
        assert set(self.finalized) == self.finalizable
        assert all(keep == Keep() for keep in self.keeps.values())

    @property
    def given(self) -> set[int]:
        """Returns the references of all data that the scheduler ever received."""
        data = [
            step.data
            for stream in self.graph.test_streams
            for step in stream.steps
            if isinstance(step, AddElements)
        ]
        for event in self.log:
            match event:
                case Start(_, roots):
                    data += [output.data for output in roots]
                case Redeliver():
                    data += event.data
                case BundleDone():
                    data += [output.data for output in event.outputs]
                    data += [residual.data for residual in event.residuals]
                case SplitDone() if event.residuals:
                    data += [part.data for part in event.primary]
                    data += [residual.data for residual in event.residuals]
        return {one.ref.number for one in data}

    def check_exactly_once(self, name: str, spec: StageSpec) -> None:
        done = self.processed[name]
        assert all(count == 1 for count in done.values()), "processed twice"
        expected: Counter[Any] = Counter()
        drained = self.end == FinishJob(Outcome.DRAINED)
        dropped = self.dropped if drained else set()
        for element in self.elements_for(spec):
            if element.ident in dropped:
                continue
            for window in element.windows:
                if spec.splittable:
                    expected.update(self.expected_claims(name, element, window, done))
                else:
                    expected[element.ident, window] += 1
        assert done == expected, "elements lost or made up"

    def elements_for(self, spec: StageSpec) -> list[Element]:
        """Returns all elements that a stage must process."""
        return [
            element
            for collection in spec.inputs
            for element in self.committed.get(collection, {}).values()
        ] + self.redelivered.get(spec.name, [])

    @property
    def dropped(self) -> set[int]:
        """Returns the elements of TestStream steps that a drain skipped."""
        scripted = {
            element.ident
            for stream in self.graph.test_streams
            for step in stream.steps
            if isinstance(step, AddElements)
            for element in step.data.ref.elements
        }
        processed = {key[0] for counter in self.processed.values() for key in counter}
        return scripted - processed

    def expected_claims(
        self, name: str, element: Element, window: Window, done: Counter[Any]
    ) -> list[tuple[int, Window, int]]:
        positions = [key[2] for key in done if key[:2] == (element.ident, window)]
        whole = self.length(name, element)
        drained = self.end == FinishJob(Outcome.DRAINED)
        if whole == ENDLESS or (drained and self.behaviours[name].drain_keeps is not None):
            whole = max(positions, default=-1) + 1
        return [(element.ident, window, position) for position in range(whole)]

    def check_on_time(self, stage: str, result: Result) -> None:
        """Checks that without late sources, no output is behind the output watermark of its stage."""
        if self.late_sources:
            return
        watermark = self.watermarks[stage][2]
        for output in result.event.outputs:
            assert output.data.facts.min_timestamp >= watermark, "an output has become late"
