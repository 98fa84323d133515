"""Steps with state of every kind and event-time timers.

Timers fire at the end of their windows. An earlier timer would see a nondeterministic part of the
elements in a bounded pipeline.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.combiners import CountCombineFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from rules import told
from typed import Collection, behind_shuffle, keyed, not_merging
from values import Kind, digest, hint


def random_remember(rng: random.Random) -> dict[str, Any]:
    return {}


def remember(one: Collection) -> Collection:
    """Emits the contents of each kind of state of a key at the end of the window."""
    return _with_state(one, Remember)


def random_alarms(rng: random.Random) -> dict[str, Any]:
    return {"tags": rng.choice([1, 3])}


def alarms(one: Collection, *, tags: int) -> Collection:
    """Sets several timers of one family, and emits their tags when they fire."""
    return _with_state(one, lambda kind: Alarms(kind, tags))


def random_number(rng: random.Random) -> dict[str, Any]:
    return {}


def number(one: Collection) -> Collection:
    """Numbers the elements of each key, in any order."""
    return _with_state(one, Number)


def _with_state(one: Collection, do_fn: Any) -> Collection:
    pairs = keyed(not_merging(behind_shuffle(one)))
    kind = ("tuple", pairs.kind[1], "str")
    made = beam.ParDo(do_fn(pairs.kind)).with_output_types(hint(kind))
    return attrs.evolve(pairs.apply("Stateful", made, kind), rings=True)


class Remember(beam.DoFn):
    """DoFn that stores elements in every kind of state, until the window ends."""

    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    SET = userstate.SetStateSpec("set", VarIntCoder())
    SUM = userstate.CombiningValueStateSpec("sum", sum)
    COUNT = userstate.CombiningValueStateSpec("count", CountCombineFn())
    MOST = userstate.ReadModifyWriteStateSpec("most", StrUtf8Coder())
    LIST = userstate.OrderedListStateSpec("list", VarIntCoder())
    END = userstate.TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def process(
        self,
        pair: Any,
        window: Any = beam.DoFn.WindowParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        some: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(SUM),
        count: Any = beam.DoFn.StateParam(COUNT),
        most: Any = beam.DoFn.StateParam(MOST),
        ordered: Any = beam.DoFn.StateParam(LIST),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        number = digest(self._kind, pair) % 20
        bag.add(number)
        some.add(number % 3)
        total.add(number)
        count.add(pair)
        most.write(max(most.read() or "", str(number)))
        ordered.add((Timestamp(number), number))
        end.set(window.max_timestamp())

    @userstate.on_timer(END)
    def on_end(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        some: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(SUM),
        count: Any = beam.DoFn.StateParam(COUNT),
        most: Any = beam.DoFn.StateParam(MOST),
        ordered: Any = beam.DoFn.StateParam(LIST),
    ) -> Iterator[tuple[Any, str]]:
        span = ordered.read_range(Timestamp(3), Timestamp(12))
        seen = [
            sorted(bag.read()),
            sorted(some.read()),
            total.read(),
            count.read(),
            most.read(),
            sorted(value for _, value in span),
            [value for _, value in ordered.read()],
        ]
        yield key, f"{seen} {told(time.micros)}"
        bag.clear()
        some.clear()


class Alarms(beam.DoFn):
    """Sets timers by name, some of which are taken back at their first call."""

    SEEN = userstate.SetStateSpec("seen", VarIntCoder())
    ALARM = userstate.TimerSpec("alarm", TimeDomain.WATERMARK)

    def __init__(self, kind: Kind, tags: int) -> None:
        self._kind, self._tags = kind, tags

    def process(
        self,
        pair: Any,
        window: Any = beam.DoFn.WindowParam,
        seen: Any = beam.DoFn.StateParam(SEEN),
        alarm: Any = beam.DoFn.TimerParam(ALARM),
    ) -> None:
        number = digest(self._kind, pair)
        seen.add(number % 5)
        tag = number % self._tags
        end = window.max_timestamp()
        alarm.set(end, dynamic_timer_tag=f"t{tag}")
        alarm.set(end, dynamic_timer_tag="never")
        alarm.clear(dynamic_timer_tag="never")

    @userstate.on_timer(ALARM)
    def on_alarm(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        seen: Any = beam.DoFn.StateParam(SEEN),
    ) -> Iterator[tuple[Any, str]]:
        yield key, f"{tag} {sorted(seen.read())} {told(time.micros)}"


class Number(beam.DoFn):
    """Numbers the elements of each key and window."""

    NEXT = userstate.ReadModifyWriteStateSpec("next", VarIntCoder())

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def process(
        self,
        pair: Any,
        window: Any = beam.DoFn.WindowParam,
        next: Any = beam.DoFn.StateParam(NEXT),
    ) -> Iterator[WindowedValue]:
        number = next.read() or 0
        next.write(number + 1)
        # The number of an element, and so its timestamp, is nondeterministic.
        # Use whole milliseconds: the encoding truncates fractions.
        last = Timestamp(micros=window.max_timestamp().micros // 1000 * 1000)
        yield WindowedValue((pair[0], str(number)), last, [window])
