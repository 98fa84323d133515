"""Tests of state and timers by key and window, in bounded pipelines and in streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from jobs import Pipelines, timestamped

Pair = tuple[str, int]


def at(time: int, *values: Any) -> list[TimestampedValue]:
    return [TimestampedValue(value, time) for value in values]


class Flush(beam.DoFn):
    """Collects values until an alarm in a time domain rings."""

    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    EVENT = userstate.TimerSpec("event", TimeDomain.WATERMARK)
    CLOCK = userstate.TimerSpec("clock", TimeDomain.REAL_TIME)

    def __init__(self, *, clock: bool) -> None:
        self._clock = clock

    def process(
        self,
        pair: Pair,
        time: Any = beam.DoFn.TimestampParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        event: Any = beam.DoFn.TimerParam(EVENT),
        clock: Any = beam.DoFn.TimerParam(CLOCK),
    ) -> None:
        bag.add(pair[1])
        if self._clock:
            clock.set(Timestamp.now() + Duration(10))
        else:
            event.set(time + Duration(5))

    @userstate.on_timer(EVENT)
    def on_event(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        bag: Any = beam.DoFn.StateParam(BAG),
    ) -> Iterator[tuple[str, list[int], int]]:
        yield key, sorted(bag.read()), int(time)
        bag.clear()

    @userstate.on_timer(CLOCK)
    def on_clock(
        self, key: Any = beam.DoFn.KeyParam, bag: Any = beam.DoFn.StateParam(BAG)
    ) -> Iterator[tuple[str, list[int], int]]:
        yield key, sorted(bag.read()), 0
        bag.clear()


class AtTheEnd(beam.DoFn):
    """Collects values until an alarm rings, set for some seconds after the end of the window."""

    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    ALARM = userstate.TimerSpec("alarm", TimeDomain.WATERMARK)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def process(
        self,
        pair: Pair,
        window: Any = beam.DoFn.WindowParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        alarm: Any = beam.DoFn.TimerParam(ALARM),
    ) -> None:
        bag.add(pair[1])
        alarm.set(window.end + Duration.of(self._seconds))

    @userstate.on_timer(ALARM)
    def ring(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        bag: Any = beam.DoFn.StateParam(BAG),
    ) -> Iterator[tuple[str, list[int], int]]:
        yield key, sorted(bag.read()), int(time)


@pytest.mark.parametrize("seconds", [0, 3, 3600])
@pytest.mark.parametrize("stream", [False, True], ids=["bounded", "stream"])
def test_timer_beyond_its_window_fires_when_the_window_expires(
    pipelines: Pipelines, stream: bool, seconds: int
) -> None:
    """The timer fires with the time it was set for, as on Beam's own Python runners."""
    pairs = [("a", 1), ("a", 2), ("b", 3)]
    source = (
        Stream()
        .add_elements(at(1, *pairs))
        .advance_watermark_to(10)
        .add_elements(at(12, ("a", 4)))
        .advance_watermark_to_infinity()
        if stream
        else timestamped([*((pair, 1) for pair in pairs), (("a", 4), 12)], Pair)
    )
    with pipelines.new(*["--streaming"] * stream) as p:
        rung = p | source | beam.WindowInto(FixedWindows(10)) | beam.ParDo(AtTheEnd(seconds))
        expected = [
            ("a", [1, 2], 10 + seconds),
            ("b", [3], 10 + seconds),
            ("a", [4], 20 + seconds),
        ]
        assert_that(rung, equal_to(expected))


def test_timer_at_the_last_timestamp_of_a_window_sees_all_elements(
    pipelines: Pipelines,
) -> None:
    """While the watermark is at this time, an element of the last millisecond is on time."""
    last = Timestamp(micros=9_999_000)
    stream = (
        Stream()
        .add_elements(at(1, ("a", 1)))
        .advance_watermark_to(last)
        .add_elements([TimestampedValue(("a", 2), last)])
        .advance_watermark_to(10)
        .advance_watermark_to_infinity()
    )
    with pipelines.new("--streaming") as p:
        windows = beam.WindowInto(FixedWindows(10))
        rung = p | stream | windows | beam.ParDo(AtTheEnd(-0.001))
        assert_that(rung, equal_to([("a", [1, 2], 9)]))


def test_timers_follow_the_clock_of_a_test_stream(pipelines: Pipelines) -> None:
    stream = (
        Stream()
        .add_elements([("a", 1)])
        .advance_processing_time(9)
        .add_elements([("b", 10)])
        .advance_processing_time(2)
        .add_elements([("a", 2)])
        .advance_processing_time(100)
        .advance_watermark_to_infinity()
    )
    with pipelines.new("--streaming") as p:
        rung = p | stream | beam.ParDo(Flush(clock=True))
        assert_that(rung, equal_to([("a", [1], 0), ("b", [10], 0), ("a", [2], 0)]))


def test_timer_holds_the_watermark_of_its_output(pipelines: Pipelines) -> None:
    """Output of a window's timers is on time in the next stage."""
    stream = (
        Stream()
        .add_elements(at(1, ("a", 1)))
        .add_elements(at(4, ("a", 2)))
        .advance_watermark_to(8)
        .advance_watermark_to_infinity()
    )
    with pipelines.new("--streaming") as p:
        sums = (
            p
            | stream
            | beam.ParDo(Flush(clock=False))
            | beam.Map(lambda rung: (rung[0], sum(rung[1])))
            | beam.WindowInto(FixedWindows(10))
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair, w=beam.DoFn.WindowParam: (*pair, int(w.end)))
        )
        assert_that(sums, equal_to([("a", 3, 10)]))
