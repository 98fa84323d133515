"""State and timers by key and window, in bounded pipelines and in streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder, VarIntCoder
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


class Numbering(beam.DoFn):
    """Numbers the values of each key."""

    NEXT = userstate.ReadModifyWriteStateSpec("next", VarIntCoder())

    def process(self, pair: Pair, state: Any = beam.DoFn.StateParam(NEXT)) -> Iterator[Pair]:
        number = state.read() or 0
        state.write(number + 1)
        yield pair[0], number


def test_every_value_has_a_number_of_its_own(everywhere: Pipelines) -> None:
    """More keys and values than fit into one bundle of an SDK's cache."""
    keys, each = 50, 20
    with everywhere.new() as p:
        numbered = (
            p
            | beam.Create([(f"k{n % keys}", n) for n in range(keys * each)])
            | beam.Reshuffle()
            | beam.ParDo(Numbering())
        )
        expected = [(f"k{key}", number) for key in range(keys) for number in range(each)]
        assert_that(numbered, equal_to(expected))


def test_windows_have_state_of_their_own(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        numbered = (
            p
            | timestamped([(("a", 1), 1), (("a", 2), 2), (("a", 3), 11)], Pair)
            | beam.WindowInto(FixedWindows(10))
            | beam.ParDo(Numbering())
        )
        assert_that(numbered, equal_to([("a", 0), ("a", 0), ("a", 1)]))


class EveryKind(beam.DoFn):
    """Keeps values in every kind of state, and tells what is there after three of them."""

    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    SET = userstate.SetStateSpec("set", VarIntCoder())
    SUM = userstate.CombiningValueStateSpec("sum", sum)
    LAST = userstate.ReadModifyWriteStateSpec("last", StrUtf8Coder())

    def process(
        self,
        pair: Pair,
        bag: Any = beam.DoFn.StateParam(BAG),
        some: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(SUM),
        last: Any = beam.DoFn.StateParam(LAST),
    ) -> Iterator[tuple[str, list[int], list[int], int, str]]:
        bag.add(pair[1])
        some.add(pair[1] % 2)
        total.add(pair[1])
        if last.read() == "two":
            yield pair[0], sorted(bag.read()), sorted(some.read()), total.read(), last.read()
            bag.clear()
            some.clear()
            total.clear()
            last.clear()
        else:
            last.write("one" if last.read() is None else "two")


def test_every_kind_of_state_is_kept_and_cleared(pipelines: Pipelines) -> None:
    """Step by step, so that it passes from one bundle to the next."""
    stream = Stream()
    for number in range(1, 7):
        stream = stream.add_elements([("a", number), ("b", 10 * number)])
    with pipelines.new("--streaming") as p:
        seen = p | stream.advance_watermark_to_infinity() | beam.ParDo(EveryKind())
        expected = [
            ("a", [1, 2, 3], [0, 1], 6, "two"),
            ("a", [4, 5, 6], [0, 1], 15, "two"),
            ("b", [10, 20, 30], [0], 60, "two"),
            ("b", [40, 50, 60], [0], 150, "two"),
        ]
        assert_that(seen, equal_to(expected))


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


def test_timers_ring_when_the_watermark_comes_by(pipelines: Pipelines) -> None:
    """One that is set again rings at its last time; the event time of what it makes is its own."""
    stream = (
        Stream()
        .add_elements(at(1, ("a", 1), ("b", 10)))
        .add_elements(at(3, ("a", 2)))
        .advance_watermark_to(7)
        .add_elements(at(7, ("b", 20)))
        .advance_watermark_to(9)
        .add_elements(at(9, ("a", 3)))
        .advance_watermark_to_infinity()
    )
    with pipelines.new("--streaming") as p:
        rung = p | stream | beam.ParDo(Flush(clock=False))
        expected = [("b", [10], 6), ("a", [1, 2], 8), ("b", [20], 12), ("a", [3], 14)]
        assert_that(rung, equal_to(expected))


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
def test_timer_beyond_its_window_rings_when_the_window_expires(
    pipelines: Pipelines, stream: bool, seconds: int
) -> None:
    """It gets the time it was set for, as on Beam's own runners for Python."""
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


def test_timer_at_the_last_timestamp_of_a_window_sees_all_its_elements(
    pipelines: Pipelines,
) -> None:
    """While the watermark is at that time, an element of the last millisecond is on time."""
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


def test_timers_ring_in_bounded_pipelines(everywhere: Pipelines) -> None:
    with everywhere.new() as p:
        rung = (
            p
            | timestamped([(("a", 1), 1), (("b", 10), 2), (("a", 2), 3)], Pair)
            | beam.ParDo(Flush(clock=False))
            | beam.MapTuple(lambda key, values, _: (key, sum(values)))
            | beam.CombinePerKey(sum)
        )
        assert_that(rung, equal_to([("a", 3), ("b", 10)]))


def test_timers_follow_the_clock_of_the_script(pipelines: Pipelines) -> None:
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


class Relay(beam.DoFn):
    """An alarm that sets the next, three times, each under a tag of its own."""

    ALARM = userstate.TimerSpec("alarm", TimeDomain.WATERMARK)

    def process(
        self,
        pair: Pair,
        time: Any = beam.DoFn.TimestampParam,
        alarm: Any = beam.DoFn.TimerParam(ALARM),
    ) -> None:
        alarm.set(time, dynamic_timer_tag="0")

    @userstate.on_timer(ALARM)
    def ring(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        alarm: Any = beam.DoFn.TimerParam(ALARM),
    ) -> Iterator[tuple[str, str, int]]:
        yield key, tag, int(time)
        if tag != "2":
            alarm.set(time + Duration(10), dynamic_timer_tag=str(int(tag) + 1))


@pytest.mark.parametrize("stream", [False, True], ids=["bounded", "stream"])
def test_timers_that_set_timers(pipelines: Pipelines, stream: bool) -> None:
    pairs = [("a", 0), ("b", 0)]
    source = (
        Stream().add_elements(at(1, *pairs)).advance_watermark_to_infinity()
        if stream
        else timestamped([(pair, 1) for pair in pairs], Pair)
    )
    with pipelines.new(*["--streaming"] * stream) as p:
        rung = p | source | beam.ParDo(Relay())
        expected = [(key, str(n), 1 + 10 * n) for key, _ in pairs for n in range(3)]
        assert_that(rung, equal_to(expected))


def test_a_timer_holds_the_watermark_of_what_it_will_make(pipelines: Pipelines) -> None:
    """What the timers of a window give is on time in the next stage."""
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
