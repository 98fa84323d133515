"""Simulated caller that runs a stream in random order. After each step, it checks that no watermark
overtakes elements.

The invariant: data that a reader has not seen holds the reader's watermark, unless the data was
late at its source. For merging windows, the event time of every element holds the watermark. For
other windows, a hold at the end of the window is sufficient.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from random import Random
from typing import Any, TypeAlias

import attrs
from beam_runner_model.facts import DataStatistics
from beam_runner_model.panes import PaneTiming
from beam_runner_model.times import MIN_TIMESTAMP, Timestamp
from beam_runner_model.timestamp_combiners import combine_timestamps
from beam_runner_model.window_coders import decode_window, encode_window
from beam_runner_model.window_fns import FixedWindows, assign_windows
from beam_runner_model.windowed_values import compute_hold_time

from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import WindowPane
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.scheduler.capture import capture_job_state
from beam_runner_engine.scheduler.commands import (
    Bundle,
    Command,
    FailJob,
    FinishJob,
    OpenBundles,
    SplitBundle,
)
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import (
    BundleDone,
    BundleFailed,
    Event,
    FailureKind,
    Output,
    Progress,
    Residual,
    SplitDone,
    Start,
    Tick,
)
from beam_runner_engine.scheduler.kept_state import Identities
from beam_runner_engine.scheduler.overtaking import WatermarkChecker
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    DefaultWindowMapping,
    GraphSpec,
    Limits,
    SideInputSpec,
    StageKind,
    StageSpec,
)
from beam_runner_engine.scheduler.transfer import transfer_job_state
from beam_runner_engine.testing.stores import MemoryCellStore

from .stream_jobs import LAST, Element, Member, OverlapMerger, Step, StreamJob, alike

PAIRS, PARTS, FANNED, GROUPED, SIDE = "pairs", "parts", "fanned", "grouped", "side"
SHARDS = 2
SIDE_WINDOWS = FixedWindows(10)
_MOST_STEPS = 5_000

Elements: TypeAlias = tuple[Element, ...]
Part: TypeAlias = tuple[Step, ...]


class Overtaken(AssertionError):
    """Error: a watermark has overtaken an on-time element."""


@attrs.frozen
class Ref:
    """Reference of data: elements, or remaining steps of a source."""

    number: int
    elements: Elements = ()
    part: Part = ()


def hold_of(element: Element) -> Timestamp:
    """Returns the time at which an element holds watermarks."""
    if element.window is None:
        return element.time
    return compute_hold_time(element.time, (encode_window(element.window),))


class StreamHost:
    """Simulated caller that runs one job to its end. `panes` holds the output of the grouping
    stage.
    """

    def __init__(self, job: StreamJob, rng: Random) -> None:
        self.job = job
        self.panes: list[WindowPane] = []
        self._rng = rng
        self._refs = 0
        self._open: dict[int, Bundle] = {}
        self._asked: dict[int, SplitBundle] = {}
        self._stores: defaultdict[Any, MemoryCellStore] = defaultdict(MemoryCellStore)
        self._now = 0
        self._end: FinishJob | FailJob | None = None
        self._graph = _graph_of(job)
        self._readers = {
            name: [stage.name for stage in self._graph.stages if name in stage.inputs]
            for stage in self._graph.stages
            for name in stage.outputs
        }
        self._limits = Limits(rng.randint(1, 4), rng.randint(1, 4), outside_attempts=_MOST_STEPS)
        self._scheduler = Scheduler(self._graph, self._limits)
        self._watch = WatermarkChecker()

    def run(self) -> None:
        """Runs the job to its end in random order, with failures, splits and updates."""
        roots = [
            Output(f"root{number}", self._data(part=steps))
            for number, source in enumerate(self.job.sources)
            for steps in source
        ]
        if self.job.sided:
            roots.append(Output("side root", self._data(part=_side_steps(self._rng))))
        self._handle(Start(self._now, tuple(roots)))
        for _ in range(_MOST_STEPS):
            if self._end is not None:
                break
            self._step()
        assert isinstance(self._end, FinishJob), self._end or self._scheduler.list_wait_reasons()

    def _step(self) -> None:
        if self._rng.random() < 0.04:
            self._update()
        if not self._open:
            wake = self._scheduler.next_wake
            assert wake is not None, self._scheduler.list_wait_reasons()
            self._now = max(self._now, wake)
            self._handle(Tick(self._now))
            return
        bundle = self._open[self._rng.choice(list(self._open))]
        match self._rng.random():
            case chance if chance < 0.1:
                self._asked.pop(bundle.number, None)
                failed = BundleFailed(bundle.number, bundle.attempt, "lost", FailureKind.OUTSIDE)
                self._handle(failed)
            case chance if chance < 0.3 and bundle.number not in self._asked:
                self._handle(Progress(bundle.number, bundle.attempt, 0.1, 20_000))
            case chance if chance < 0.5 and bundle.number in self._asked:
                self._split(bundle)
            case chance if chance < 0.6:
                self._now += self._rng.randint(0, 3)
                self._handle(Tick(self._now))
            case _:
                self._complete_bundle(bundle)

    def _update(self) -> None:
        """Moves the job to a graph with another order of stages. Open bundles are given up."""
        names = {name: name for stage in self._graph.stages for name in stage.outputs}
        stages = {stage.name: stage.name for stage in self._graph.stages}
        sides = {
            (stage.name, side.name): (stage.name, side.name)
            for stage in self._graph.stages
            for side in stage.side_inputs
        }
        known = Identities(stages, names, sides)
        kept = capture_job_state(self._scheduler.state, known)
        order = self._rng.sample(self._graph.stages, len(self._graph.stages))
        graph = attrs.evolve(self._graph, stages=tuple(order))
        state, commands = transfer_job_state(kept, graph, known, limits=self._limits)
        self._scheduler = Scheduler.from_state(state)
        self._open.clear()
        self._asked.clear()
        for command in commands:
            self._carry_out(command)

    def _handle(self, event: Event) -> None:
        commands = self._watch.handle_event(self._scheduler, event)
        assert self._watch.take_violations() == []
        for command in commands:
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        match command:
            case OpenBundles(stage, bundles):
                for bundle in bundles:
                    self._open[bundle.number] = bundle
                    if stage in (FANNED, GROUPED):
                        self._check_reading(bundle)
            case SplitBundle(number):
                self._asked[number] = command
            case FinishJob() | FailJob():
                self._end = command

    def _complete_bundle(self, bundle: Bundle) -> None:
        del self._open[bundle.number]
        self._asked.pop(bundle.number, None)
        spec = next(stage for stage in self._graph.stages if stage.name == bundle.stage)
        residuals: tuple[Residual, ...] = ()
        more: dict[str, Any] = {}
        if spec.kind is StageKind.GROUPING:
            elements, more = self._group(bundle)
        elif spec.splittable:
            elements, residuals = self._read(bundle)
        else:
            elements = tuple(e for one in bundle.inputs for e in self._meant(one))
        outputs = tuple(o for name in spec.outputs for o in self._outputs(spec, name, elements))
        self._check_handing_on(outputs)
        self._handle(BundleDone(bundle.number, bundle.attempt, outputs, residuals, **more))

    def _meant(self, one: Any) -> Elements:
        if one.windows is None:
            return tuple(one.data.ref.elements)
        return tuple(e for e in one.data.ref.elements if e.window in one.windows)

    def _read(self, bundle: Bundle) -> tuple[Elements, tuple[Residual, ...]]:
        """Takes a few steps of each restriction; the remaining steps become a residual."""
        elements: list[Element] = []
        residuals: list[Residual] = []
        for one in bundle.inputs:
            part: Part = one.data.ref.part
            taken = self._rng.randint(1, 3)
            for members, _ in part[:taken]:
                elements += [Element(m.key, m.time, (m,)) for m in members]
            if part[taken:]:
                residuals.append(self._residual_of(part, taken))
        return tuple(elements), tuple(residuals)

    def _residual_of(self, part: Part, taken: int) -> Residual:
        delay = self._rng.choice((0, 0, 2))
        return Residual(self._data(part=part[taken:]), delay, watermark=part[taken - 1][1])

    def _split(self, bundle: Bundle) -> None:
        """Answers a split request with a checkpoint: after a step of a source, or between the
        inputs of another stage.
        """
        asked = self._asked.pop(bundle.number)
        first, *others = bundle.inputs
        residuals = [Residual(one.data, windows=one.windows, untouched=True) for one in others]
        part: Part = first.data.ref.part
        if len(part) > 1:
            residuals.append(self._residual_of(part, 1))
            first = attrs.evolve(first, data=self._data(part=part[:1]))
        if residuals:
            self._open[bundle.number] = attrs.evolve(bundle, inputs=(first,))
            done = SplitDone(bundle.number, asked.attempt, (first,), tuple(residuals))
        else:
            done = SplitDone(bundle.number, asked.attempt)
        self._handle(done)

    def _outputs(self, spec: StageSpec, name: str, elements: Elements) -> list[Output]:
        """Returns the output of a stage, after window assignment and lifted combining if the stage
        does either.
        """
        job = self.job
        if name == SIDE:
            windowed = (
                attrs.evolve(e, window=assign_windows(SIDE_WINDOWS, e.time)[0]) for e in elements
            )
            return [Output(name, self._data(elements=(e,))) for e in windowed]
        last = name == (PARTS if job.fanned else PAIRS) and spec.kind is StageKind.ORDINARY
        if last or job.windows_early:
            elements = tuple(w for e in elements for w in self._windowed(e))
        if last:
            elements = tuple(attrs.evolve(e, time=e.time + job.shift) for e in elements)
        if last and job.lifts:
            elements = tuple(map(self._combined, alike(elements).values()))
        cuts: dict[Any, list[Element]] = {}
        for element in elements:
            by_window = element.window if job.sided else None
            cuts.setdefault((element.key % SHARDS, by_window), []).append(element)
        return [
            Output(name, self._data(elements=tuple(cut), shard=shard))
            for (shard, _), cut in cuts.items()
        ]

    def _windowed(self, element: Element) -> Elements:
        if element.window is not None:
            return (element,)
        (member,) = element.members
        return tuple(attrs.evolve(element, window=w) for w in self.job.windows_of(member))

    def _combined(self, elements: list[Element]) -> Element:
        """Returns the output of a lifted combine for elements of one key and window."""
        window = elements[0].window
        assert window is not None
        time = combine_timestamps(
            self.job.strategy.timestamp_combiner, window, [e.time for e in elements]
        )
        members = tuple(m for e in elements for m in e.members)
        return Element(elements[0].key, time, members, window)

    def _group(self, bundle: Bundle) -> tuple[Elements, dict[str, Any]]:
        store = self._stores[bundle.stage, bundle.shard]
        merges = self.job.strategy.needs_merge
        grouper = TriggeredGrouper(self.job.strategy, store, OverlapMerger() if merges else None)
        rows = [e for one in bundle.inputs for e in one.data.ref.elements]
        time = bundle.processing_time, bundle.output_watermark
        panes = grouper.process_elements(
            [_grouped_by(row, in_parts=bundle.stage == FANNED) for row in rows],
            [encode_window(row.window) for row in rows],
            [row.time for row in rows],
            [row.members for row in rows],
            CurrentTimes(bundle.input_watermark, *time),
        )
        panes += grouper.advance_time(CurrentTimes(bundle.end_watermark, *time))
        commit = grouper.finish_bundle()
        store.commit_deltas(commit.deltas)
        if bundle.stage == GROUPED:
            self.panes += panes
        more = {"summary": commit.summary}
        return tuple(map(self._merge_partial_pane, filter(lambda pane: pane.values, panes))), more

    def _merge_partial_pane(self, pane: WindowPane) -> Element:
        """Returns the element that a pane of a partial key becomes downstream."""
        members = tuple(m for several in pane.values for m in several)
        if pane.pane.timing is PaneTiming.LATE:
            # The accumulating pane is behind the watermark, with all elements that it repeats.
            members = tuple(attrs.evolve(member, on_time=False) for member in members)
        window = decode_window(self.job.strategy.window_coder, pane.window)
        return Element(members[0].key, pane.timestamp, members, window)

    def _data(self, elements: Elements = (), shard: int | None = None, part: Part = ()) -> Data:
        self._refs += 1
        facts = DataStatistics(
            count=max(1, len(elements)),
            size=10 * max(1, len(elements)),
            min_timestamp=min(map(hold_of, elements), default=MIN_TIMESTAMP),
            shard=shard,
            windows=frozenset(e.window for e in elements if e.window is not None) or None,
        )
        return Data(Ref(self._refs, elements, part), facts)

    def _check_reading(self, bundle: Bundle) -> None:
        """Raises `Overtaken` if a grouping receives elements that its watermark has overtaken."""
        for one in bundle.inputs:
            for element in one.data.ref.elements:
                if element.on_time:
                    needed = (
                        min(element.on_time)
                        if self.job.strategy.needs_merge
                        else element.window.max_timestamp()
                    )
                    if bundle.input_watermark > needed:
                        raise Overtaken(f"{element} is read at {bundle.input_watermark}")

    def _check_handing_on(self, outputs: tuple[Output, ...]) -> None:
        """Raises `Overtaken` if an output element is behind the watermark of a reading stage."""
        for output in outputs:
            for reader in self._readers[output.collection]:
                watermark = self._scheduler.create_stage_report(reader).upstream_watermark
                for element in output.data.ref.elements:
                    if element.on_time and hold_of(element) < watermark:
                        raise Overtaken(f"{element} is handed on to {reader} at {watermark}")


def _grouped_by(element: Element, *, in_parts: bool) -> bytes:
    part = element.members[0].ident % 2 if in_parts else 0
    return b"%d/%d" % (element.key, part)


def _graph_of(job: StreamJob) -> GraphSpec:
    stages: list[StageSpec] = []
    roots: list[str] = []
    sides: tuple[SideInputSpec, ...] = ()
    if job.sided:
        roots.append("side root")
        stages.append(StageSpec("read side", ("side root",), (SIDE,), splittable=True))
        sides = (SideInputSpec("side", SIDE, DefaultWindowMapping(SIDE_WINDOWS)),)
    to_group = PARTS if job.fanned else PAIRS
    for number in range(len(job.sources)):
        way = 0 if job.joined else number
        names = [f"root{number}", *(f"hop{way}.{hop}" for hop in range(job.hops)), to_group]
        roots.append(names[0])
        stages.append(StageSpec(f"read{number}", (names[0],), (names[1],), splittable=True))
        for before, after in pairwise(names[1:]):
            name = f"from {before}"
            if all(stage.name != name for stage in stages):
                read = sides if after == to_group else ()
                stages.append(StageSpec(name, (before,), (after,), side_inputs=read))
    if job.fanned:
        stages.append(StageSpec(FANNED, (PARTS,), (PAIRS,), kind=StageKind.GROUPING))
    stages.append(StageSpec(GROUPED, (PAIRS,), kind=StageKind.GROUPING))
    return GraphSpec(tuple(stages), tuple(roots))


def _side_steps(rng: Random) -> Part:
    """Returns the steps of the side input, whose watermark is sometimes behind and sometimes ahead
    of the main input.
    """
    steps: list[Step] = []
    for time in range(0, LAST + 30, 10):
        members = (Member(-1, 0, time),) if rng.random() < 0.7 else ()
        steps.append((members, time + 10))
    return tuple(steps)
