"""Operations with state and timers, whose output doesn't depend on the order of arrival.

When a timer fires, all elements up to its time have arrived, and no element was late. Later
elements may have arrived or not, so the rows don't contain them.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.coders import FastPrimitivesCoder, VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from operations import Stream
from span_windows import SAFE

FIRST, SECOND, THIRD = 10, 20, 30
"""When (ms after the element) the timers of ``alarms`` ring."""
_BAG = BagStateSpec("bag", FastPrimitivesCoder())
_STARTED = ReadModifyWriteStateSpec("started", VarIntCoder())
_KEY: Any = beam.DoFn.KeyParam
_TIME: Any = beam.DoFn.TimestampParam
_WINDOW: Any = beam.DoFn.WindowParam
Pairs = Iterator[tuple[str, Any]]


def collect(stream: Stream, when: str) -> Stream:
    """Returns the values that a timer at the window's end finds in a bag.

    Args:
        when: ``last`` moment of the window, ``end`` of the window or a second ``beyond`` it.
    """
    pairs = stream.groupable()
    if not pairs.inside:
        pairs = pairs.in_windows(SAFE, "Timed")
    made = pairs.apply("Collect", beam.ParDo(Collect(when)))
    return attrs.evolve(made, grouped=True).restamped()


class Collect(beam.DoFn):
    """DoFn that stores values in a bag until the window ends."""

    END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, when: str) -> None:
        self._when = when

    def process(
        self,
        element: tuple[str, int],
        window: Any = _WINDOW,
        bag: Any = beam.DoFn.StateParam(_BAG),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        bag.add(element[1])
        if self._when == "last" or isinstance(window, GlobalWindow):
            end.set(_last(window))
        else:
            end.set(Timestamp(micros=window.end.micros + 1_000_000 * (self._when == "beyond")))

    @on_timer(END)
    def ended(
        self,
        key: Any = _KEY,
        bag: Any = beam.DoFn.StateParam(_BAG),
    ) -> Pairs:
        values = tuple(sorted(bag.read()))
        bag.clear()
        yield key, values


def loop(stream: Stream, period: int) -> Stream:
    """Returns the values so far at each tick of a timer that sets itself until the window ends."""
    made = stream.in_intervals(inside=True).apply("Loop", beam.ParDo(Loop(period)))
    return attrs.evolve(made, grouped=False)


class Loop(beam.DoFn):
    """Sets a timer a period after the window's start, which sets itself again and again."""

    TICK = TimerSpec("tick", TimeDomain.WATERMARK)

    def __init__(self, period: int) -> None:
        self._period = period

    def process(
        self,
        element: tuple[str, int],
        time: Any = _TIME,
        window: Any = _WINDOW,
        bag: Any = beam.DoFn.StateParam(_BAG),
        started: Any = beam.DoFn.StateParam(_STARTED),
        tick: Any = beam.DoFn.TimerParam(TICK),
    ) -> None:
        bag.add((time.micros // 1000, element[1]))
        if not started.read():
            started.write(1)
            self._set(tick, window.start.micros // 1000, window)

    @on_timer(TICK)
    def ticked(
        self,
        key: Any = _KEY,
        time: Any = _TIME,
        window: Any = _WINDOW,
        bag: Any = beam.DoFn.StateParam(_BAG),
        tick: Any = beam.DoFn.TimerParam(TICK),
    ) -> Pairs:
        now = time.micros // 1000
        values = tuple(sorted(value for at, value in bag.read() if at <= now))
        if values:  # A tick before the first element may be late.
            yield key, values
        self._set(tick, now, window)

    def _set(self, tick: Any, now: int, window: Any) -> None:
        if now + self._period <= _last(window).micros // 1000:
            tick.set(Timestamp(micros=1000 * (now + self._period)))


def alarms(stream: Stream) -> Stream:
    """Returns the output of two timers of each element, of which the first clears or moves the second."""
    made = stream.in_intervals(inside=True).apply("Alarms", beam.ParDo(Alarms()))
    return attrs.evolve(made, grouped=False)


class Alarms(beam.DoFn):
    """Sets two timers for each element. By its value the first clears, moves or leaves the second."""

    FIRST = TimerSpec("first", TimeDomain.WATERMARK)
    SECOND = TimerSpec("second", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        time: Any = _TIME,
        window: Any = _WINDOW,
        first: Any = beam.DoFn.TimerParam(FIRST),
        second: Any = beam.DoFn.TimerParam(SECOND),
    ) -> Pairs:
        key, value = element
        if time.micros + 1000 * THIRD > _last(window).micros:
            yield key, ("short", value)
            return
        tag = f"{value} {time.micros}"
        first.set(Timestamp(micros=time.micros + 1000 * FIRST), dynamic_timer_tag=tag)
        second.set(Timestamp(micros=time.micros + 1000 * SECOND), dynamic_timer_tag=tag)

    @on_timer(FIRST)
    def rings(
        self,
        key: Any = _KEY,
        time: Any = _TIME,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        second: Any = beam.DoFn.TimerParam(SECOND),
    ) -> Pairs:
        value = _value_of(tag)
        match value % 3:
            case 0:
                second.clear(dynamic_timer_tag=tag)
            case 1:
                moved = Timestamp(micros=time.micros + 1000 * (THIRD - FIRST))
                second.set(moved, dynamic_timer_tag=tag)
        yield key, ("first", value)

    @on_timer(SECOND)
    def rings_second(self, key: Any = _KEY, tag: Any = beam.DoFn.DynamicTimerTagParam) -> Pairs:
        yield key, ("second", _value_of(tag))


def _value_of(tag: str) -> int:
    return int(tag.partition(" ")[0])


def relay(stream: Stream, by_event: bool, seconds: float) -> Stream:
    """Returns the values that a processing-time timer finds in a bag, one by one.

    Args:
        by_event: whether a timer at the window's end sets the timer, instead of the elements.
        seconds: delay of the timer, seconds.
    """
    relayed = stream.in_intervals().apply("Relay", beam.ParDo(Relay(by_event, seconds)))
    return attrs.evolve(relayed, grouped=False).restamped()


class Relay(beam.DoFn):
    """Puts values into a bag until a timer in processing time rings."""

    END = TimerSpec("end", TimeDomain.WATERMARK)
    CLOCK = TimerSpec("clock", TimeDomain.REAL_TIME)

    def __init__(self, by_event: bool, seconds: float) -> None:
        self._by_event, self._seconds = by_event, seconds

    def process(
        self,
        element: tuple[str, int],
        window: Any = _WINDOW,
        bag: Any = beam.DoFn.StateParam(_BAG),
        end: Any = beam.DoFn.TimerParam(END),
        after: Any = beam.DoFn.TimerParam(CLOCK),
    ) -> None:
        bag.add(element[1])
        if self._by_event:
            end.set(_last(window))
        else:
            after.set(Timestamp.of(clock.time() + self._seconds))

    @on_timer(END)
    def ended(self, after: Any = beam.DoFn.TimerParam(CLOCK)) -> None:
        after.set(Timestamp.of(clock.time() + self._seconds))

    @on_timer(CLOCK)
    def rings(self, key: Any = _KEY, bag: Any = beam.DoFn.StateParam(_BAG)) -> Pairs:
        values = list(bag.read())
        bag.clear()
        for value in values:
            yield key, value


STATEFUL: dict[str, Callable[..., Stream]] = {
    "collect": collect,
    "loop": loop,
    "alarms": alarms,
    "relay": relay,
}


def _last(window: Any) -> Timestamp:
    """Returns the last millisecond of a window."""
    return Timestamp(micros=window.max_timestamp().micros // 1000 * 1000)
