"""Simulated user code: the processing of elements, state and timers in the stages of random jobs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs
from beam_runner_model.facts import DataStatistics
from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.windows import IntervalWindow, Window

from beam_runner_engine.scheduler.commands import (
    Bundle,
)
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import (
    BundleDone,
    Output,
    Residual,
)
from beam_runner_engine.scheduler.specs import (
    StageKind,
    StageSpec,
)

SHARDS = 3
ENDLESS = 1_000_000


@attrs.frozen
class Element:
    """Element; in a splittable stage, `low` and `high` are the bounds of its remaining restriction."""

    ident: int
    time: int
    windows: frozenset[Window]
    low: int = 0
    high: int | None = None


@attrs.frozen
class Ref:
    """Reference of data: a unique number, and the elements."""

    number: int
    elements: tuple[Element, ...]


@attrs.frozen
class Behaviour:
    """Behavior of a stage's simulated user code."""

    unbounded: bool = False
    """Whether restrictions of a splittable stage are endless."""
    delay: int = 0
    """Delay of residuals in ms."""
    drain_keeps: int | None = None
    """Number of positions that truncation leaves of a restriction. None leaves all positions of a
    bounded restriction, and none of an endless restriction.
    """
    processing_timers: bool = False
    """Whether timers of a stateful stage are in processing time."""
    leaks: bool = False
    """Whether a stateful stage omits the release of a hold."""
    lateness: int = 0
    late: int = 0
    """Time in ms by which some outputs are earlier than their input, so that they can be late."""
    lag: int = 0
    """Time in ms by which the watermark estimator goes back at some positions."""
    merges: bool = False
    """Whether windows of a grouping stage that overlap merge."""


@attrs.define
class Keep:
    """State that a shard keeps between bundles."""

    buffer: tuple[tuple[Element, Window], ...] = ()
    timers: tuple[tuple[int, int, Window], ...] = ()
    """Firing time, hold and window of event-time timers; `clocks` holds processing-time timers."""
    clocks: tuple[tuple[int, int, Window], ...] = ()
    leak: int | None = None
    expiry: int | None = None


@attrs.define
class Result:
    """Result of an attempt at a bundle, which the simulated caller can commit."""

    event: BundleDone
    processed: Counter[Any]
    keep: Keep | None


def merge_windows(
    buffered: tuple[tuple[Element, Window], ...],
) -> tuple[tuple[Element, Window], ...]:
    """Returns elements in the merged windows of all intervals that overlap."""
    intervals = [(element, one) for element, one in buffered if isinstance(one, IntervalWindow)]
    merged: list[IntervalWindow] = []
    for window in sorted({window for _, window in intervals}, key=lambda one: one.start):
        if merged and window.start < merged[-1].end:
            merged[-1] = IntervalWindow(merged[-1].start, max(merged[-1].end, window.end))
        else:
            merged.append(window)
    return tuple(
        (element, next(one for one in merged if one.start <= window.start < one.end))
        for element, window in intervals
    )


class UserCode:
    """Runner of bundles on elements in memory. Changes have no effect until the simulated caller
    commits the result.
    """

    stages: dict[str, StageSpec]
    behaviours: dict[str, Behaviour]
    keeps: dict[tuple[str, int], Keep]
    made: dict[int, Data]
    next_ident: int
    next_ref: int
    checkpointed: dict[int, set[int]]
    """Data of which the latest attempt at each bundle has nothing left after a checkpoint, by
    bundle.
    """
    whole: set[int]
    """Bundles whose latest attempt returns only residuals that no drain truncates."""

    def element(self, time: int, windows: frozenset[Window]) -> Element:
        self.next_ident += 1
        return Element(self.next_ident, time, windows)

    def data(self, elements: tuple[Element, ...], shard: int | None = None) -> Data:
        self.next_ref += 1
        facts = DataStatistics(
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
        """Divides elements by key shard if the readers of a collection are keyed."""
        shards: dict[int, list[Element]] = {}
        for element in elements:
            shards.setdefault(element.ident % SHARDS, []).append(element)
        return tuple(
            Output(collection, self.data(tuple(members), shard))
            for shard, members in shards.items()
        )

    def length(self, stage: str, element: Element) -> int:
        return ENDLESS if self.behaviours[stage].unbounded else 1 + element.ident % 4

    def run(self, bundle: Bundle, most: int) -> Result:
        """Processes a bundle. A splittable stage claims at most `most` positions of each element."""
        spec = self.stages[bundle.stage]
        if spec.is_keyed:
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
        late = self.behaviours[spec.name].late
        elements = [
            (time - late * (number % 2), windows) for number, (time, windows) in enumerate(elements)
        ]
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
        ends = self.checkpointed.get(bundle.number, ())
        for one in bundle.inputs:
            for element in one.data.ref.elements:
                windows = element.windows if one.windows is None else element.windows & one.windows
                if not windows:
                    continue
                high = self.length(spec.name, element) if element.high is None else element.high
                if one.truncate:
                    high = self.truncated(behaviour, element.low, high)
                last = high if one.data.ref.number in ends else min(high, element.low + most)
                claimed = range(element.low, last)
                for position in claimed:
                    processed.update((element.ident, window, position) for window in windows)
                    elements.append((self.stamp(element, position), windows))
                if claimed.stop < high and claimed:
                    rest = attrs.evolve(element, low=claimed.stop, high=high, windows=windows)
                    residuals.append(
                        Residual(
                            self.data((rest,), one.data.facts.shard),
                            delay=behaviour.delay,
                            watermark=self.stamp(element, claimed.stop)
                            - behaviour.lag * (claimed.stop % 2),
                            estimator_state=claimed.stop,
                            whole=bundle.number in self.whole,
                        )
                    )
        return self.result(spec, bundle, elements, processed, tuple(residuals))

    def truncated(self, behaviour: Behaviour, low: int, high: int) -> int:
        """Returns the end of a restriction after truncation."""
        if behaviour.drain_keeps is not None:
            return min(high, low + behaviour.drain_keeps)
        return low if high == ENDLESS else high

    def stamp(self, element: Element, position: int) -> int:
        """Returns the timestamp of a position in a restriction: increasing, and inside all windows."""
        return min(element.time + position, *(one.max_timestamp() for one in element.windows))

    def run_keyed(self, spec: StageSpec, bundle: Bundle) -> Result:
        assert bundle.shard is not None
        keep = attrs.evolve(self.keeps.get((spec.name, bundle.shard), Keep()))
        behaviour = self.behaviours[spec.name]
        processed: Counter[Any] = Counter()
        pairs: list[tuple[Element, Any]] = []
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
        if self.behaviours[bundle.stage].merges:
            buffered = merge_windows(buffered)
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
