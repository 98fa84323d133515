"""Runners of schedules of elements and times, with this engine's grouper and with Beam's trigger
driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import attrs
from apache_beam.transforms import trigger as beam_trigger
from apache_beam.transforms import window as beam_window
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import MIN_TIMESTAMP as BEAM_MIN
from apache_beam.utils.timestamp import Duration as BeamDuration
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp
from apache_beam.utils.windowed_value import PaneInfoTiming, WindowedValue
from beam_runner_model import triggers as t
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.window_coders import decode_window, encode_window
from beam_runner_model.window_fns import (
    FixedWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
    assign_windows,
)
from beam_runner_model.windows import Window

from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import WindowPane
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_engine.testing.stores import MemoryCellStore

KEY = b"key"


@attrs.frozen
class Element:
    """Arrival of an element, whose value is its position in the schedule."""

    timestamp: int


@attrs.frozen
class Watermark:
    """Advance of the watermark to a time (ms)."""

    time: int


@attrs.frozen
class ProcessingTime:
    """Advance of processing time to a time (ms)."""

    time: int


Step = Element | Watermark | ProcessingTime


@attrs.frozen(order=True)
class FiredPane:
    """Pane in a form that is common to this engine and Beam, with window bounds and times in ms."""

    step: int
    window: tuple[int, int]
    values: tuple[int, ...]
    timestamp: int
    timing: str
    index: int
    nonspeculative_index: int
    is_last: bool


class OurRun:
    """Runner that feeds a grouper. Each step is a separate bundle, unless `one_bundle` is True."""

    def __init__(
        self,
        strategy: WindowingStrategy,
        merger: WindowMerger | None = None,
        *,
        one_bundle: bool = False,
    ) -> None:
        self.strategy = strategy
        self.merger = merger
        self.store = MemoryCellStore()
        self.now = CurrentTimes()
        self.one_bundle = one_bundle
        self.grouper = TriggeredGrouper(strategy, self.store, merger)
        self.dropped = 0
        self.summary: Any = None

    def element(
        self, value: int, timestamp: int, windows: Iterable[Window] | None = None
    ) -> list[WindowPane]:
        """Adds an element to all its windows."""
        if windows is None:
            windows = assign_windows(self.strategy.window_fn, timestamp)
        return self._process([(encode_window(window), timestamp, value) for window in windows])

    def elements(self, elements: Iterable[tuple[int, Element]]) -> list[WindowPane]:
        """Adds several elements in one call, each with its value."""
        window_fn = self.strategy.window_fn
        return self._process(
            [
                (encode_window(window), element.timestamp, value)
                for value, element in elements
                for window in assign_windows(window_fn, element.timestamp)
            ]
        )

    def _process(self, rows: list[tuple[bytes, int, int]]) -> list[WindowPane]:
        windows, times, values = zip(*rows, strict=True)
        out = self.grouper.process_elements([KEY] * len(rows), windows, times, values, self.now)
        self._end_bundle()
        return list(out)

    def time(
        self, *, watermark: int | None = None, processing_time: int | None = None
    ) -> list[WindowPane]:
        """Advances time to the given times."""
        self.now = CurrentTimes(
            watermark=self.now.watermark if watermark is None else watermark,
            processing_time=self.now.processing_time
            if processing_time is None
            else processing_time,
        )
        out = self.grouper.advance_time(self.now)
        self._end_bundle()
        return list(out)

    def step(self, number: int, step: Step) -> list[WindowPane]:
        """Runs a step of a schedule; `number` is the value of an element."""
        match step:
            case Element(timestamp):
                return self.element(number, timestamp)
            case Watermark(time):
                return self.time(watermark=time)
            case ProcessingTime(time):
                return self.time(processing_time=time)

    def _end_bundle(self) -> None:
        if not self.one_bundle:
            self.commit()

    def commit(self) -> None:
        """Commits the bundle and opens the next bundle."""
        commit = self.grouper.finish_bundle()
        self.store.commit_deltas(commit.deltas)
        self.dropped += commit.dropped
        self.summary = commit.summary
        self.grouper = TriggeredGrouper(self.strategy, self.store, self.merger)


def fired(strategy: WindowingStrategy, step: int, groups: Iterable[WindowPane]) -> list[FiredPane]:
    """Converts groups to fired panes."""
    panes = []
    for group in groups:
        window: Any = decode_window(strategy.window_coder, group.window)
        panes.append(
            FiredPane(
                step,
                (window.start, window.end),
                tuple(sorted(group.values)),
                group.timestamp,
                group.pane.timing.name,
                group.pane.index,
                group.pane.nonspeculative_index,
                group.pane.is_last,
            )
        )
    return panes


def run_ours(
    strategy: WindowingStrategy,
    schedule: Iterable[Step],
    *,
    one_bundle: bool = False,
    together: bool = False,
) -> tuple[list[FiredPane], OurRun]:
    """Runs a schedule with this engine's grouper. If `together` is True, consecutive elements share
    a call.
    """
    run = OurRun(strategy, one_bundle=one_bundle)
    panes: list[FiredPane] = []
    for number, steps in calls(schedule, together=together):
        if isinstance(steps[0], Element):
            numbered = enumerate((step for step in steps if isinstance(step, Element)), number)
            groups = run.elements(numbered)
        else:
            groups = run.step(number, steps[0])
        panes.extend(fired(strategy, number, groups))
    return panes, run


def calls(schedule: Iterable[Step], *, together: bool) -> Iterator[tuple[int, list[Step]]]:
    """Yields the steps of each call with the number of the first step. Only elements share a call."""
    numbered = list(enumerate(schedule))
    for are_elements, found in groupby(numbered, lambda step: isinstance(step[1], Element)):
        steps = list(found)
        if are_elements and together:
            yield steps[0][0], [step for _, step in steps]
        else:
            for number, step in steps:
                yield number, [step]


class _Clock:
    def __init__(self) -> None:
        self.now = BEAM_MIN

    def time(self) -> BeamTimestamp:
        return self.now


def _seconds(millis: int) -> BeamTimestamp:
    return BeamTimestamp(micros=millis * 1000)


def run_beam(
    strategy: WindowingStrategy, schedule: Iterable[Step], *, together: bool = False
) -> list[FiredPane]:
    """Runs a schedule with Beam's `GeneralTriggerDriver`, in the same calls."""
    clock = _Clock()
    window_fn = beam_window_fn(strategy.window_fn)
    driver = beam_trigger.GeneralTriggerDriver(
        Windowing(
            window_fn,
            beam_trigger_fn(strategy.trigger),
            getattr(beam_trigger.AccumulationMode, strategy.accumulation_mode.name),
            _COMBINERS[strategy.timestamp_combiner],
            BeamDuration(micros=strategy.allowed_lateness * 1000),
        ),
        clock,
    )
    state = beam_trigger.InMemoryUnmergedState()
    watermark = BEAM_MIN
    panes: list[FiredPane] = []
    for number, steps in calls(schedule, together=together):
        out: list[WindowedValue] = []
        match steps[0]:
            case Element():
                elements = []
                for value, step in enumerate(steps, number):
                    assert isinstance(step, Element)
                    time = _seconds(step.timestamp)
                    context = beam_window.WindowFn.AssignContext(time, None)
                    elements.append(WindowedValue(value, time, window_fn.assign(context)))
                out.extend(driver.process_elements(state, elements, watermark, watermark))
            case Watermark(to):
                watermark = _seconds(to)
            case ProcessingTime(to):
                clock.now = _seconds(to)
        while due := state.get_timers(True, watermark, clock.now)[0]:
            # Each part of a trigger has separate timers; evaluate the trigger once for all of them.
            questions = {(time, window_id, domain) for window_id, (_, domain, time, _) in due}
            for time, window_id, domain in sorted(questions):
                passed = watermark if domain == TimeDomain.WATERMARK else time
                out.extend(driver.process_timer(window_id, "", domain, passed, state, watermark))
        panes.extend(_fired_by_beam(number, value) for value in out)
    return panes


def _fired_by_beam(step: int, value: WindowedValue) -> FiredPane:
    window = value.windows[0]
    pane = value.pane_info
    return FiredPane(
        step,
        (window.start.micros // 1000, window.end.micros // 1000),
        tuple(sorted(value.value)),
        value.timestamp.micros // 1000,
        PaneInfoTiming.to_string(pane.timing),
        pane.index,
        pane.nonspeculative_index,
        pane.is_last,
    )


_COMBINERS = {
    TimestampCombiner.EARLIEST: beam_window.TimestampCombiner.OUTPUT_AT_EARLIEST,
    TimestampCombiner.LATEST: beam_window.TimestampCombiner.OUTPUT_AT_LATEST,
    TimestampCombiner.END_OF_WINDOW: beam_window.TimestampCombiner.OUTPUT_AT_EOW,
}


def beam_window_fn(window_fn: WindowFn) -> beam_window.WindowFn:
    """Returns Beam's equivalent of a window function."""
    match window_fn:
        case FixedWindows(size, offset):
            return beam_window.FixedWindows(_duration(size), _seconds(offset))
        case SlidingWindows(size, period, offset):
            return beam_window.SlidingWindows(_duration(size), _duration(period), _seconds(offset))
        case Sessions(gap):
            return beam_window.Sessions(_duration(gap))
        case _:
            raise ValueError(window_fn)


def _duration(millis: int) -> BeamDuration:
    return BeamDuration(micros=millis * 1000)


def beam_trigger_fn(trigger: t.Trigger) -> beam_trigger.TriggerFn:
    """Returns Beam's equivalent of a trigger."""
    match trigger:
        case t.DefaultTrigger():
            return beam_trigger.DefaultTrigger()
        case t.Always():
            return beam_trigger.Always()
        case t.Never():
            return beam_trigger._Never()
        case t.AfterCount(count):
            return beam_trigger.AfterCount(count)
        case t.AfterProcessingTime(transforms):
            delay = sum(part.delay for part in transforms if isinstance(part, t.Delay))
            return beam_trigger.AfterProcessingTime(_duration(delay))
        case t.AfterSynchronizedProcessingTime():
            return beam_trigger._AfterSynchronizedProcessingTime()
        case t.AfterEndOfWindow(early, late):
            return beam_trigger.AfterWatermark(
                None if early is None else beam_trigger_fn(early),
                None if late is None else beam_trigger_fn(late),
            )
        case t.AfterAll(parts):
            return beam_trigger.AfterAll(*map(beam_trigger_fn, parts))
        case t.AfterAny(parts):
            return beam_trigger.AfterAny(*map(beam_trigger_fn, parts))
        case t.AfterEach(parts):
            return beam_trigger.AfterEach(*map(beam_trigger_fn, parts))
        case t.OrFinally(main, until):
            return beam_trigger.OrFinally(beam_trigger_fn(main), beam_trigger_fn(until))
        case t.Repeatedly(part):
            return beam_trigger.Repeatedly(beam_trigger_fn(part))
