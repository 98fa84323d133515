"""A simulated host: runs bundles on elements in memory and holds the scheduler to its promises.

It keeps books of its own (what was committed, what was processed, what each shard holds) and
compares the scheduler's commands and watermarks with them after every event.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs

from beam_runner_engine.scheduler.commands import (
    Bundle,
    CancelBundles,
    Command,
    FailJob,
    FinalizeBundles,
    FinishJob,
    Input,
    OpenBundles,
    Outcome,
    ReleaseData,
    ReleaseState,
    SplitBundle,
    WakeAt,
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
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import (
    AddElements,
    GraphSpec,
    Limits,
    SideInputReadiness,
    StageKind,
    StageSpec,
)
from beam_runner_engine.values.facts import DataFacts
from beam_runner_engine.values.summary import EMPTY_SUMMARY, ShardSummary
from beam_runner_engine.values.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_engine.values.windows import Window

SHARDS = 3
ENDLESS = 1_000_000


@attrs.frozen
class Element:
    """An element; `low` and `high` bound what is left of its restriction in a splittable stage."""

    ident: int
    time: int
    windows: frozenset[Window]
    low: int = 0
    high: int | None = None


@attrs.frozen
class Ref:
    """What the scheduler is given as reference: a number of its own, and the elements."""

    number: int
    elements: tuple[Element, ...]


@attrs.frozen
class Behaviour:
    """How the simulated user code of a stage acts."""

    unbounded: bool = False
    """Restrictions of a splittable stage have no end."""
    delay: int = 0
    """Residuals resume after this time."""
    processing_timers: bool = False
    """Timers of a stateful stage are in processing time."""
    leaks: bool = False
    """A stateful stage forgets to let a hold go."""
    lateness: int = 0


@attrs.define
class Keep:
    """What a shard keeps between bundles."""

    buffer: tuple[tuple[Element, Window], ...] = ()
    timers: tuple[tuple[int, int, Window], ...] = ()
    """Firing time, hold and window of event-time timers; `clocks` are those in processing time."""
    clocks: tuple[tuple[int, int, Window], ...] = ()
    leak: int | None = None
    expiry: int | None = None


@attrs.define
class Result:
    """What an attempt at a bundle would commit."""

    event: BundleDone
    processed: Counter[Any]
    keep: Keep | None


class SimulatedHost:
    """Carries out commands and makes events of the results; see `check_all` for the promises."""

    def __init__(
        self,
        graph: GraphSpec,
        behaviours: dict[str, Behaviour],
        limits: Limits,
        late_sources: bool = False,
    ) -> None:
        self.graph = graph
        self.behaviours = behaviours
        self.late_sources = late_sources
        self.limits = limits
        self.stages = {stage.name: stage for stage in graph.stages}
        self.scheduler = Scheduler(graph, limits)
        self.log: list[Event] = []
        self.answers: list[tuple[Command, ...]] = []
        self.open: dict[int, Bundle] = {}
        self.asked: dict[int, SplitBundle] = {}
        self.now = 0
        self.wake: int | None = None
        self.next_ident = 0
        self.next_ref = 0
        self.committed: dict[str, dict[int, Element]] = {}
        self.side_data: dict[str, list[Data]] = {}
        self.processed: dict[str, Counter[Any]] = {name: Counter() for name in self.stages}
        self.keeps: dict[tuple[str, int], Keep] = {}
        self.made: dict[int, Data] = {}
        self.released: set[int] = set()
        self.origins: dict[int, set[int]] = {}
        """The data that was cut out of other data, whose storage it shares."""
        self.done: list[int] = []
        self.finalized: list[int] = []
        self.finalizable: set[int] = set()
        self.end: FinishJob | FailJob | None = None
        self.watermarks: dict[str, tuple[int, int, int]] = {}

    def __repr__(self) -> str:
        return f"SimulatedHost({self.graph}, {self.behaviours}, {self.limits}, {self.late_sources})"

    # What goes in.

    def element(self, time: int, windows: frozenset[Window]) -> Element:
        self.next_ident += 1
        return Element(self.next_ident, time, windows)

    def data(self, elements: tuple[Element, ...], shard: int | None = None) -> Data:
        self.next_ref += 1
        facts = DataFacts(
            count=len(elements),
            size=10 * len(elements),
            min_timestamp=min(element.time for element in elements),
            shard=shard,
            windows=frozenset().union(*(element.windows for element in elements)),
        )
        data = Data(Ref(self.next_ref, elements), facts)
        self.made[self.next_ref] = data
        return data

    def outputs(self, collection: str, elements: list[Element]) -> tuple[Output, ...]:
        """Cuts elements by key shard, as the readers of a collection want it."""
        shards: dict[int, list[Element]] = {}
        for element in elements:
            shards.setdefault(element.ident % SHARDS, []).append(element)
        return tuple(
            Output(collection, self.data(tuple(members), shard))
            for shard, members in shards.items()
        )

    def start(self, roots: dict[str, list[Element]]) -> None:
        outputs = tuple(
            output for name, elements in roots.items() for output in self.outputs(name, elements)
        )
        for output in outputs:
            self.note_committed(output)
            self.side_data.setdefault(output.collection, []).append(output.data)
        for stream in self.graph.test_streams:
            for step in stream.steps:
                if hasattr(step, "data"):
                    self.note_committed(Output(step.collection, step.data))
        self.handle(Start(self.now, outputs))

    def note_committed(self, output: Output) -> None:
        known = self.committed.setdefault(output.collection, {})
        for element in output.data.ref.elements:
            assert element.ident not in known
            known[element.ident] = element

    # The one way to the scheduler.

    def handle(self, event: Event) -> tuple[Command, ...]:
        commands = self.scheduler.handle(event)
        self.log.append(event)
        self.answers.append(commands)
        self.check_watermarks()
        for command in commands:
            self.carry_out(command)
        return commands

    def carry_out(self, command: Command) -> None:
        assert self.end is None or isinstance(command, ReleaseData)
        match command:
            case OpenBundles(stage, bundles):
                for bundle in bundles:
                    self.check_opening(stage, bundle)
                    self.open[bundle.number] = bundle
            case SplitBundle(number, attempt, _):
                assert self.open[number].attempt == attempt
                self.asked[number] = command
            case CancelBundles(bundles):
                assert {(one.number, one.attempt) for one in self.open.values()} >= set(bundles)
                self.open.clear()
            case FinalizeBundles(numbers):
                assert set(numbers) <= set(self.done), "finalized before the commit"
                self.finalized.extend(numbers)
            case WakeAt(time):
                self.wake = time
            case ReleaseState(stage, shard):
                assert self.keeps.pop((stage, shard)) == Keep()
            case ReleaseData(data):
                for one in data:
                    self.check_release(one)
            case FinishJob() | FailJob():
                self.end = command
                self.open.clear()
                self.asked.clear()

    # The promises.

    def check_opening(self, stage: str, bundle: Bundle) -> None:
        spec = self.stages[stage]
        assert bundle.stage == stage
        earlier = self.open.get(bundle.number)
        if earlier is not None:
            assert bundle.attempt == earlier.attempt + 1
            return
        assert bundle.attempt == 1
        if spec.keyed:
            others = [(one.stage, one.shard) for one in self.open.values()]
            assert (stage, bundle.shard) not in others, "two bundles of a shard are open"
            assert all(one.data.facts.shard == bundle.shard for one in bundle.inputs)
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
        seen = {(side.name, side.window): side.data for side in bundle.side_inputs}
        for side in spec.side_inputs:
            makers = [
                name for name, stage in self.stages.items() if side.collection in stage.outputs
            ]
            for main_window in known:
                window = side.mapping.side_window(main_window)
                given = seen[side.name, window]
                assert not any(item.ref.number in self.released for item in given)
                if not makers:
                    continue
                watermark = min(self.watermarks[name][2] for name in makers)
                early = side.readiness is SideInputReadiness.FIRST_PANE and given
                assert early or watermark > window.max_timestamp(), "side input read too early"
                if not self.late_sources and not side.replaces:
                    assert given == tuple(
                        data
                        for data in self.side_data.get(side.collection, ())
                        if window in data.facts.windows
                    )

    def check_release(self, data: Data) -> None:
        number = data.ref.number
        assert number not in self.released, "released twice"
        for bundle in self.open.values():
            assert all(one.data.ref.number != number for one in bundle.inputs)
            for side in bundle.side_inputs:
                assert all(one.ref.number != number for one in side.data)
        for other, origins in self.origins.items():
            assert number not in origins or other in self.released, "its storage is still in use"
        self.released.add(number)

    def check_watermarks(self) -> None:
        for name in self.stages:
            report = self.scheduler.report(name)
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
        assert not self.open
        for name, spec in self.stages.items():
            self.check_exactly_once(name, spec)
            assert self.watermarks[name] == (MAX_TIMESTAMP,) * 3
        assert self.released == self.given
        assert set(self.finalized) == self.finalizable
        assert all(keep == Keep() for keep in self.keeps.values())

    @property
    def given(self) -> set[int]:
        """The numbers of all data the scheduler was ever given."""
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
        for collection in spec.inputs:
            for element in self.committed.get(collection, {}).values():
                if element.ident in dropped:
                    continue
                for window in element.windows:
                    if spec.splittable:
                        expected.update(self.expected_claims(name, element, window, done))
                    else:
                        expected[element.ident, window] += 1
        assert done == expected, "elements lost or made up"

    @property
    def dropped(self) -> set[int]:
        """Elements of TestStream steps that were never taken, because of a drain."""
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
        if whole == ENDLESS:
            whole = max(positions, default=-1) + 1
        return [(element.ident, window, position) for position in range(whole)]

    # Simulated user code.

    def length(self, stage: str, element: Element) -> int:
        return ENDLESS if self.behaviours[stage].unbounded else 1 + element.ident % 4

    def run(self, bundle: Bundle, most: int) -> Result:
        """Processes a bundle; splittable stages claim at most `most` positions of each element."""
        spec = self.stages[bundle.stage]
        if spec.keyed:
            return self.run_keyed(spec, bundle)
        if spec.splittable:
            return self.run_splittable(spec, bundle, most)
        processed: Counter[Any] = Counter()
        elements = []
        for one in bundle.inputs:
            for element in one.data.ref.elements:
                windows = element.windows if one.windows is None else element.windows & one.windows
                processed.update((element.ident, window) for window in windows)
                if windows and element.ident % 5:
                    elements.append((element.time, windows))
        return self.result(spec, bundle, elements, processed)

    def result(
        self,
        spec: StageSpec,
        bundle: Bundle,
        elements: list[tuple[int, frozenset[Window]]],
        processed: Counter[Any],
        residuals: tuple[Residual, ...] = (),
        keep: Keep | None = None,
    ) -> Result:
        outputs = tuple(
            output
            for name in spec.outputs
            for output in self.outputs(name, [self.element(*one) for one in elements])
        )
        event = BundleDone(
            bundle.number,
            bundle.attempt,
            outputs,
            residuals,
            summary=None if keep is None else self.summary(spec, keep),
            finalize=bundle.number % 2 == 0,
        )
        return Result(event, processed, keep)

    def run_splittable(self, spec: StageSpec, bundle: Bundle, most: int) -> Result:
        processed: Counter[Any] = Counter()
        elements, residuals = [], []
        behaviour = self.behaviours[spec.name]
        for one in bundle.inputs:
            for element in one.data.ref.elements:
                windows = element.windows if one.windows is None else element.windows & one.windows
                if not windows:
                    continue
                high = self.length(spec.name, element) if element.high is None else element.high
                if one.truncate and high == ENDLESS:
                    high = element.low
                claimed = range(element.low, min(high, element.low + most))
                for position in claimed:
                    processed.update((element.ident, window, position) for window in windows)
                    elements.append((self.stamp(element, position), windows))
                if claimed.stop < high and claimed:
                    rest = attrs.evolve(element, low=claimed.stop, high=high, windows=windows)
                    residuals.append(
                        Residual(
                            self.data((rest,), one.data.facts.shard),
                            delay=behaviour.delay,
                            watermark=self.stamp(element, claimed.stop),
                            estimator_state=claimed.stop,
                        )
                    )
        return self.result(spec, bundle, elements, processed, tuple(residuals))

    def stamp(self, element: Element, position: int) -> int:
        """The time of a position of a restriction: later ones later, all inside the windows."""
        return min(element.time + position, *(one.max_timestamp() for one in element.windows))

    def run_keyed(self, spec: StageSpec, bundle: Bundle) -> Result:
        assert bundle.shard is not None
        keep = attrs.evolve(self.keeps.get((spec.name, bundle.shard), Keep()))
        behaviour = self.behaviours[spec.name]
        processed: Counter[Any] = Counter()
        pairs = []
        for one in bundle.inputs:
            for element in one.data.ref.elements:
                windows = element.windows if one.windows is None else element.windows & one.windows
                processed.update((element.ident, window) for window in windows)
                pairs.extend((element, window) for window in windows)
        late = [pair for pair in pairs if pair[1].max_timestamp() < bundle.input_watermark]
        pairs = [pair for pair in pairs if pair not in late]
        if spec.kind is StageKind.GROUPING:
            elements = self.group(keep, pairs, bundle)
        else:
            elements = self.keep_state(keep, pairs, bundle, behaviour)
        return self.result(spec, bundle, elements, processed, keep=keep)

    def group(
        self, keep: Keep, pairs: list[tuple[Element, Window]], bundle: Bundle
    ) -> list[tuple[int, frozenset[Window]]]:
        buffered = (*keep.buffer, *pairs)
        ended = {
            window: None for _, window in buffered if window.max_timestamp() < bundle.end_watermark
        }
        keep.buffer = tuple(pair for pair in buffered if pair[1] not in ended)
        return [(window.max_timestamp(), frozenset({window})) for window in ended]

    def keep_state(
        self,
        keep: Keep,
        pairs: list[tuple[Element, Window]],
        bundle: Bundle,
        behaviour: Behaviour,
    ) -> list[tuple[int, frozenset[Window]]]:
        elements: list[tuple[int, frozenset[Window]]] = []
        for element, window in pairs:
            elements.append((element.time, frozenset({window})))
            if behaviour.processing_timers:
                keep.clocks += ((bundle.processing_time + 7, element.time, window),)
            else:
                keep.timers += ((element.time + 5, element.time, window),)
            expiry = window.max_timestamp() + behaviour.lateness
            keep.expiry = max(expiry, keep.expiry or expiry)
            if behaviour.leaks:
                keep.leak = element.time
        if keep.expiry is not None and (
            bundle.end_watermark > keep.expiry or bundle.end_watermark == MAX_TIMESTAMP
        ):
            keep.timers, keep.clocks, keep.expiry = (), (), None
        fired = [one for one in keep.timers if one[0] <= bundle.end_watermark]
        keep.timers = tuple(one for one in keep.timers if one not in fired)
        rung = [one for one in keep.clocks if one[0] <= bundle.processing_time]
        keep.clocks = tuple(one for one in keep.clocks if one not in rung)
        elements.extend((hold, frozenset({window})) for _, hold, window in (*fired, *rung))
        return elements

    def summary(self, spec: StageSpec, keep: Keep) -> ShardSummary:
        if keep == Keep():
            return EMPTY_SUMMARY
        holds: Counter[int] = Counter()
        holds.update(hold for _, hold, _ in keep.timers)
        holds.update(hold for _, hold, _ in keep.clocks)
        holds.update(window.max_timestamp() for _, window in keep.buffer)
        if keep.leak is not None:
            holds[keep.leak] += 1
        events = [time for time, _, _ in keep.timers]
        events += [window.max_timestamp() + 1 for _, window in keep.buffer]
        return ShardSummary(
            holds=dict(holds),
            next_event_timer=min(events, default=None),
            next_processing_timer=min((time for time, _, _ in keep.clocks), default=None),
            next_expiry=keep.expiry,
        )

    # What may happen to bundles.

    def complete(self, number: int, most: int = 2) -> None:
        bundle = self.open[number]
        result = self.run(bundle, most)
        self.check_on_time(bundle, result)
        del self.open[number]
        self.asked.pop(number, None)
        self.done.append(number)
        if result.event.finalize:
            self.finalizable.add(number)
        self.processed[bundle.stage].update(result.processed)
        if result.keep is not None:
            assert bundle.shard is not None
            self.keeps[bundle.stage, bundle.shard] = result.keep
        for output in result.event.outputs:
            self.note_committed(output)
            self.side_data.setdefault(output.collection, []).append(output.data)
        self.handle(result.event)

    def check_on_time(self, bundle: Bundle, result: Result) -> None:
        """If no source is late, nothing any stage puts out is behind its output watermark."""
        if self.late_sources:
            return
        watermark = self.watermarks[bundle.stage][2]
        for output in result.event.outputs:
            assert output.data.facts.min_timestamp >= watermark, "an output has become late"

    def fail(self, number: int, kind: FailureKind) -> None:
        bundle = self.open[number]
        self.asked.pop(number, None)
        self.handle(BundleFailed(number, bundle.attempt, f"cause {len(self.log)}", kind))

    def progress(self, number: int, fraction: float, elapsed: int) -> None:
        self.handle(Progress(number, self.open[number].attempt, fraction, elapsed))

    def answer_split(self, number: int, keep: int) -> None:
        """Splits a bundle after `keep` of its inputs, and the restriction there in two."""
        bundle, asked = self.open[number], self.asked.pop(number)
        spec = self.stages[bundle.stage]
        cut = min(keep, len(bundle.inputs))
        primary = list(bundle.inputs[:cut])
        residuals = [self.residual_of(one) for one in bundle.inputs[cut:]]
        if cut and spec.splittable and not residuals:
            one = primary.pop()
            first, rest = self.cut_restriction(spec, one, asked.fraction)
            if rest is None:
                primary.append(one)
            else:
                primary.append(first)
                residuals.append(rest)
        event = SplitDone(number, asked.attempt, tuple(primary), tuple(residuals))
        if residuals:
            self.open[number] = attrs.evolve(bundle, inputs=tuple(primary))
            before = {one.data.ref.number for one in bundle.inputs}
            for part in (*primary, *residuals):
                if part.data.ref.number not in before:
                    self.origins[part.data.ref.number] = before
        self.handle(event)

    def residual_of(self, one: Input) -> Residual:
        return Residual(
            one.data,
            windows=one.windows,
            estimator_state=one.estimator_state,
            untouched=True,
        )

    def cut_restriction(
        self, spec: StageSpec, one: Input, fraction: float
    ) -> tuple[Input, Residual | None]:
        element = one.data.ref.elements[0]
        high = self.length(spec.name, element) if element.high is None else element.high
        end = min(high, element.low + 8)
        cut = element.low + max(1, int((end - element.low) * fraction))
        if len(one.data.ref.elements) > 1 or cut >= high or one.truncate:
            return one, None
        shard = one.data.facts.shard
        first = self.data((attrs.evolve(element, high=cut),), shard)
        rest = self.data((attrs.evolve(element, low=cut, high=high),), shard)
        return (
            attrs.evolve(one, data=first),
            Residual(rest, watermark=self.stamp(element, cut), windows=one.windows),
        )

    def tick(self, now: int) -> None:
        self.now = max(self.now, now)
        self.handle(Tick(now))

    def run_to_end(self, most_steps: int) -> None:
        """Completes what runs and lets time go by until the job ends."""
        for _ in range(most_steps):
            if self.end is not None:
                return
            if self.open:
                self.complete(next(iter(self.open)), most=3)
            else:
                assert self.scheduler.next_wake is not None, "nothing moves and nobody says why"
                assert self.wake == self.scheduler.next_wake
                self.tick(self.wake)
        raise AssertionError(f"no end after {most_steps} steps: {self.scheduler.waits()}")
