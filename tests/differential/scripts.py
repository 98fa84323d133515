"""Steps with state and timers that follow a random script, and a model for the oracle.

Beam's runner fires timers that are due together in any order, and forgets timers that a timer sets.
So on the oracle no timer is set, and the model computes the output. On this runner the same script
runs with real state and timers, which fire by time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Protocol

import apache_beam as beam
import attrs
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from rules import on_the_oracle
from typed import Collection, keyed, not_merging
from values import Kind, digest, hint

_MOST_RINGS = 9
_TAGS = 4
_FAR = 4_000_000_000
"""Timestamp (s) that no input reaches, so that the timer fires when the window expires."""
_APART = 1_000
"""Distance (s) of processing-time timers: larger than the clock steps of a stream's script, so that
times identify timers.
"""
_STARTS = 1_000_000
"""Start (s) of the timers of the global window."""


class Timers(Protocol):
    """Timers of one family."""

    def set(self, timestamp: Any, dynamic_timer_tag: str) -> None:
        """Sets a timer, or moves it."""

    def clear(self, dynamic_timer_tag: str) -> None:
        """Clears a timer."""


@attrs.define
class Cells:
    """State of a script, in Beam's state cells or in the model."""

    bag: Any
    some: Any
    total: Any
    last: Any
    ordered: Any
    rings: Any
    alarm: Timers
    clock: Timers

    def told(self) -> str:
        """Returns a text of all cells."""
        seen = (
            sorted(self.bag.read()),
            sorted(self.some.read()),
            self.total.read(),
            self.last.read(),
            [(time.micros // 1_000_000, number) for time, number in self.ordered.read()],
        )
        return " ".join(map(str, seen))


def play(cells: Cells, cause: str, now: int, end: int) -> str:
    """Runs one call of the script, for an element or a timer; returns its output.

    Args:
        cause: element or timer of the call.
        now: timestamp of the cause, milliseconds; no timer is set before it.
        end: last timestamp of the window, milliseconds.
    """
    rings = cells.rings.read() or 0
    cells.rings.write(rings + 1)
    dice = random.Random(f"{cause} {rings}")
    out = [f"{cause} {rings}"]
    for _ in range(dice.randrange(1, 6)):
        _touch(cells, dice, out)
    for _ in range(dice.choice([0, 1, 1, 2]) if 0 < rings < _MOST_RINGS else 3 * (rings == 0)):
        _set(cells, dice, now, end)
    out.append(cells.told())
    return " | ".join(out)


def _touch(cells: Cells, dice: random.Random, out: list[str]) -> None:
    number = dice.randrange(10)
    since, until = Timestamp(number - 3), Timestamp(number)
    match dice.randrange(12):
        case 0 | 1:
            cells.bag.add(number)
        case 2:
            cells.some.add(number % 4)
        case 3:
            cells.total.add(number)
        case 4:
            cells.last.write(str(number))
        case 5 | 6:
            cells.ordered.add((Timestamp(number), number))
        case 7:
            out.append(str([value for _, value in cells.ordered.read_range(since, until)]))
        case 8:
            cells.ordered.clear_range(since, until)
        case 9:
            cell = dice.choice([cells.bag, cells.some, cells.total, cells.last, cells.ordered])
            cell.clear()
        case 10:
            out.append(cells.told())
        case _:
            cells.last.write(f"{cells.last.read()}{number}"[-20:])


def _set(cells: Cells, dice: random.Random, now: int, end: int) -> None:
    """Sets timers at distinct times, because the order of simultaneous timers is undefined."""
    tag = dice.randrange(_TAGS)
    kind = dice.randrange(8)
    if kind == 0:
        cells.alarm.clear(dynamic_timer_tag=str(tag))
    elif kind == 1:
        cells.clock.clear(dynamic_timer_tag=str(tag))
    elif kind == 2:
        at = _FAR + _APART * (_TAGS * dice.randrange(50) + tag)
        cells.clock.set(Timestamp(at), dynamic_timer_tag=str(tag))
    else:
        span = min(end - now, 60_000)
        if span > 2 * _TAGS:
            at = now + dice.randrange(_TAGS, span - _TAGS)
            at += tag - at % _TAGS
            cells.alarm.set(Timestamp(micros=1000 * at), dynamic_timer_tag=str(tag))


def random_script(rng: random.Random) -> dict[str, Any]:
    return {"salt": rng.randrange(1000)}


def script(one: Collection, *, salt: int) -> Collection:
    """Starts a script with each key's elements, combined."""
    pairs = keyed(not_merging(one))
    _, key, value = pairs.kind
    grouped = pairs.apply("Group", beam.GroupByKey(), ("tuple", key, ("bag", value)))
    numbers = grouped.map("Begin", _begun, ("tuple", key, "int"), grouped.kind, salt)
    kind = ("tuple", key, "str")
    played = numbers.apply("Played", beam.ParDo(Played()).with_output_types(hint(kind)), kind)
    foretold = numbers.apply("Foretold", beam.ParDo(Foretold()).with_output_types(hint(kind)), kind)
    both = (played.pc, foretold.pc) | f"{one.label}/Both" >> beam.Flatten()
    # Output of a bundle that is restarted, because a timer fired too early, stays in its file.
    return attrs.evolve(played, pc=both).apply("Apart", beam.Reshuffle(), kind)


def _begun(pair: Any, kind: Kind, salt: int) -> tuple[Any, int]:
    return pair[0], (digest(kind, pair) + salt) % 1_000_000


def span(window: Any) -> tuple[int, int]:
    """Returns the time range of timers, milliseconds, not before the minimum timestamp."""
    end = window.max_timestamp().micros // 1000
    if isinstance(window, GlobalWindow):
        return 1000 * _STARTS, 1000 * _STARTS + 3_600_000
    return max(end - 60_000, MIN_TIMESTAMP.micros // 1000 + 1), end


def _stamped(window: Any, key: Any, text: str) -> WindowedValue:
    last = window.max_timestamp().micros // 1000 * 1000
    return WindowedValue((key, text), Timestamp(micros=last), [window])


class Played(beam.DoFn):
    """DoFn that runs the script with Beam's state and timers, except on the oracle.

    Args:
        at_once: whether timers start at the timestamp of an element, instead of the window's start.
    """

    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    SET = userstate.SetStateSpec("set", VarIntCoder())
    SUM = userstate.CombiningValueStateSpec("sum", sum)
    LAST = userstate.ReadModifyWriteStateSpec("last", StrUtf8Coder())
    LIST = userstate.OrderedListStateSpec("list", VarIntCoder())
    RINGS = userstate.ReadModifyWriteStateSpec("rings", VarIntCoder())
    ALARM = userstate.TimerSpec("alarm", TimeDomain.WATERMARK)
    CLOCK = userstate.TimerSpec("clock", TimeDomain.REAL_TIME)

    def __init__(self, *, at_once: bool = False) -> None:
        self._at_once = at_once

    def process(
        self,
        pair: Any,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        some: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(SUM),
        last: Any = beam.DoFn.StateParam(LAST),
        ordered: Any = beam.DoFn.StateParam(LIST),
        rings: Any = beam.DoFn.StateParam(RINGS),
        alarm: Any = beam.DoFn.TimerParam(ALARM),
        clock: Any = beam.DoFn.TimerParam(CLOCK),
    ) -> Iterator[WindowedValue]:
        if on_the_oracle():
            return
        cells = Cells(bag, some, total, last, ordered, rings, alarm, clock)
        start, end = span(window)
        now = time.micros // 1000 if self._at_once else start
        yield _stamped(window, pair[0], play(cells, f"element {pair[1]}", now, end))

    @userstate.on_timer(ALARM)
    def on_alarm(
        self,
        key: Any = beam.DoFn.KeyParam,
        window: Any = beam.DoFn.WindowParam,
        time: Any = beam.DoFn.TimestampParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        some: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(SUM),
        last: Any = beam.DoFn.StateParam(LAST),
        ordered: Any = beam.DoFn.StateParam(LIST),
        rings: Any = beam.DoFn.StateParam(RINGS),
        alarm: Any = beam.DoFn.TimerParam(ALARM),
        clock: Any = beam.DoFn.TimerParam(CLOCK),
    ) -> Iterator[WindowedValue]:
        cells = Cells(bag, some, total, last, ordered, rings, alarm, clock)
        now, (_, end) = time.micros // 1000, span(window)
        yield _stamped(window, key, play(cells, f"alarm {tag} {now}", now, end))

    @userstate.on_timer(CLOCK)
    def on_clock(
        self,
        key: Any = beam.DoFn.KeyParam,
        window: Any = beam.DoFn.WindowParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        some: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(SUM),
        last: Any = beam.DoFn.StateParam(LAST),
        ordered: Any = beam.DoFn.StateParam(LIST),
        rings: Any = beam.DoFn.StateParam(RINGS),
        alarm: Any = beam.DoFn.TimerParam(ALARM),
        clock: Any = beam.DoFn.TimerParam(CLOCK),
    ) -> Iterator[WindowedValue]:
        cells = Cells(bag, some, total, last, ordered, rings, alarm, clock)
        _, end = span(window)
        yield _stamped(window, key, play(cells, f"clock {tag}", end, end))


class Foretold(beam.DoFn):
    """DoFn that emits the model's output of the script, on the oracle only."""

    def process(self, pair: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[WindowedValue]:
        if on_the_oracle():
            for text in foretold(pair[1], *span(window)):
                yield _stamped(window, pair[0], text)


def foretold(number: int, start: int, end: int) -> Iterator[str]:
    """Returns the complete output of one element's script, computed by the model."""
    model = Model(end)
    yield model.element(number, start)
    yield from model.ring(end)
    yield from model.expire()


class Model:
    """Model of a key's state and timers in a window: event-time timers fire by time, clock timers at
    expiry.

    Args:
        end: last timestamp of the window.
    """

    def __init__(self, end: int) -> None:
        self._end = end
        self._alarms, self._clocks = _Timers(), _Timers()
        state = (_Bag(), _Set(), _Sum(), _Cell(), _List(), _Cell())
        self._cells = Cells(*state, self._alarms, self._clocks)

    def element(self, number: int, now: int) -> str:
        """Returns the output of an element."""
        return play(self._cells, f"element {number}", now, self._end)

    def ring(self, watermark: int) -> Iterator[str]:
        """Returns the output of all timers up to the watermark (ms), including timers that they set."""
        while self._alarms.first() < watermark:
            time, tag = self._alarms.take()
            yield play(self._cells, f"alarm {tag} {time}", time, self._end)

    def expire(self, *, loops: bool = True) -> Iterator[str]:
        """Yields the output of the remaining timers.

        Args:
            loops: whether the input has ended. Before the end, a clock timer can't set another
                timer of its family.
        """
        self._clocks.is_set = loops
        while self._clocks.times:
            _, tag = self._clocks.take()
            yield play(self._cells, f"clock {tag}", self._end, self._end)
            yield from self.ring(self._end)


@attrs.define
class _Timers:
    times: dict[str, Timestamp] = attrs.field(factory=dict)
    is_set: bool = True

    def set(self, timestamp: Any, dynamic_timer_tag: str) -> None:
        if self.is_set:
            self.times[dynamic_timer_tag] = timestamp

    def clear(self, dynamic_timer_tag: str) -> None:
        self.times.pop(dynamic_timer_tag, None)

    def first(self) -> float:
        """Returns the time of the first timer, milliseconds."""
        return min((time.micros // 1000 for time in self.times.values()), default=float("inf"))

    def take(self) -> tuple[int, str]:
        """Removes the first timer; returns its time and tag."""
        tag = min(self.times, key=self.times.__getitem__)
        return self.times.pop(tag).micros // 1000, tag


@attrs.define
class _Bag:
    values: list[Any] = attrs.field(factory=list)

    def add(self, value: Any) -> None:
        self.values.append(value)

    def read(self) -> Any:
        return self.values

    def clear(self) -> None:
        self.values.clear()


class _Set(_Bag):
    def read(self) -> Any:
        return set(self.values)


class _Sum(_Bag):
    def read(self) -> Any:
        return sum(self.values)


class _List(_Bag):
    def read(self) -> Any:
        return sorted(self.values, key=lambda pair: pair[0])

    def read_range(self, since: Timestamp, until: Timestamp) -> Any:
        return [pair for pair in self.read() if since <= pair[0] < until]

    def clear_range(self, since: Timestamp, until: Timestamp) -> None:
        self.values = [pair for pair in self.values if not since <= pair[0] < until]


@attrs.define
class _Cell:
    value: Any = None

    def write(self, value: Any) -> None:
        self.value = value

    def read(self) -> Any:
        return self.value

    def clear(self) -> None:
        self.value = None
