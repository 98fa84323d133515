"""Random streams with poisoned elements, and the results that they have without these elements."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
from apache_beam import coders
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue
from failing_streams import NumberSource
from jobs import pickle_by_value

KEYS = 3
WINDOW = 10
DELAY = 2
"""Seconds between a number and its timer."""


class Poison(Exception):
    """Error of a step for a poisoned element."""


@attrs.frozen
class Number:
    """Number with a custom coder, which fails for some numbers."""

    value: int
    fails: str = ""


class NumberCoder(coders.Coder):
    """Coder that fails while it encodes or decodes a poisoned number."""

    def encode(self, number: Number) -> bytes:
        if number.fails == "encode":
            raise Poison(f"encoding {number.value}")
        return f"{number.value},{number.fails}".encode()

    def decode(self, encoded: bytes) -> Number:
        value, fails = encoded.decode().split(",")
        if fails == "decode":
            raise Poison(f"decoding {value}")
        return Number(int(value), fails)

    def is_deterministic(self) -> bool:
        return True


class CountNumbers(beam.DoFn):
    """Stateful DoFn that emits the ordinal of each number within its key; fails after it wrote its state."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def __init__(self, poisoned: frozenset[int]) -> None:
        self._poisoned = poisoned

    def process(
        self, pair: tuple[int, int], count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[tuple[int, int]]:
        before = count.read() or 0
        count.write(before + 1)
        yield pair[0], before
        if pair[1] in self._poisoned:
            raise Poison(f"state {pair[1]}")


class Echo(beam.DoFn):
    """Stateful DoFn that emits each number in a timer with the number as its tag; the timer can fail."""

    TIMER = TimerSpec("echo", TimeDomain.WATERMARK)
    LAST = ReadModifyWriteStateSpec("last", VarIntCoder())

    def __init__(self, poisoned: frozenset[int]) -> None:
        self._poisoned = poisoned

    def process(
        self,
        pair: tuple[int, int],
        time: Any = beam.DoFn.TimestampParam,
        timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> None:
        timer.set(time + DELAY, dynamic_timer_tag=str(pair[1]))

    @on_timer(TIMER)
    def ring(
        self, tag: Any = beam.DoFn.DynamicTimerTagParam, last: Any = beam.DoFn.StateParam(LAST)
    ) -> Iterator[int]:
        number = int(tag)
        last.write(number)
        yield number
        if number in self._poisoned:
            raise Poison(f"timer {number}")


class SumNumbers(beam.CombineFn):
    """Sum that fails for poisoned inputs, or for sums of poisoned groups."""

    def __init__(self, poisoned: frozenset[int], sums: frozenset[int]) -> None:
        self._poisoned, self._sums = poisoned, sums

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, total: int, number: int) -> int:
        if number in self._poisoned:
            raise Poison(f"combine {number}")
        return total + number

    def merge_accumulators(self, totals: Iterable[int]) -> int:
        return sum(totals)

    def extract_output(self, total: int) -> int:
        if total in self._sums:
            raise Poison(f"sum {total}")
        return total


class FlushNumbers(beam.DoFn):
    """DoFn that emits its elements at the end of the bundle, and fails only then."""

    def __init__(self, poisoned: frozenset[int]) -> None:
        self._poisoned = poisoned
        self._buffer: list[WindowedValue] = []

    def start_bundle(self) -> None:
        self._buffer = []

    def process(
        self,
        number: int,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> None:
        self._buffer.append(WindowedValue(number, time, (window,)))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for value in self._buffer:
            if value.value in self._poisoned:
                raise Poison(f"flush {value.value}")
        yield from self._buffer


def fail(number: int, poisoned: frozenset[int], side: Any = None) -> int:
    if number in poisoned:
        raise Poison(f"map {number}")
    return number


@attrs.frozen
class Step:
    """Step of a stream.

    Attributes:
        kind: kind of the step.
        poisoned: numbers for which the step fails.
    """

    kind: str
    poisoned: frozenset[int]


ELEMENTWISE = ("map", "twice", "encode", "decode", "side", "flush", "plain")
ENDS = ("none", "state", "timer", "combine", "group", "lifted")


@attrs.frozen
class PoisonedStream:
    """Stream with random steps.

    Attributes:
        count: numbers of the source.
        steps: steps that process one number at a time.
        end: last step, which can aggregate.
        names: whether the poisoned steps are selected by name.
        attempts: number of failures after which an element goes to quarantine.
    """

    count: int
    steps: tuple[Step, ...]
    end: Step
    names: bool
    attempts: int

    @classmethod
    def from_seed(cls, seed: int) -> PoisonedStream:
        """Returns the stream of a seed."""
        chance = random.Random(seed)
        count = chance.choice((40, 120, 200))

        def poison(most: int) -> frozenset[int]:
            return frozenset(chance.sample(range(count), chance.randint(0, most)))

        kind = chance.choice(ENDS)
        # A number that occurs twice would set its timer twice.
        kinds = [one for one in ELEMENTWISE if (one, kind) != ("twice", "timer")]
        steps = tuple(Step(chance.choice(kinds), poison(3)) for _ in range(chance.randint(1, 3)))
        end = Step(kind, poison(3))
        if kind == "combine":
            totals = [total for _, total in _sum_groups(_survivors(count, steps), frozenset())]
            end = Step(kind, frozenset(chance.sample(totals, min(2, len(totals)))))
        return cls(count, steps, end, chance.random() < 0.5, chance.choice((1, 2, 2)))

    def flags(self) -> list[str]:
        """Returns the options of the job, without the URL."""
        flags = ["--streaming", f"--beam_spark_quarantine_attempts={self.attempts}"]
        if self.names:
            flags += [f"--beam_spark_quarantine_steps=Step {n}" for n in range(len(self.steps))]
            flags.append("--beam_spark_quarantine_steps=End")
        return flags

    def build(
        self, pipeline: beam.Pipeline, gate: tuple[int, Path] = (-1, Path())
    ) -> beam.PCollection:
        """Applies the steps and returns the output. The source waits at a number for a file."""
        source = NumberSource(*gate, at_a_time=37)
        numbers = pipeline | beam.Create([self.count]) | beam.ParDo(source)
        side = pipeline | "Side" >> beam.Create([1, 2, 3])
        for place, step in enumerate(self.steps):
            numbers = numbers | f"Step {place}" >> _Elementwise(step, side)
        return numbers | "End" >> _End(self.end)

    def expect(self) -> list[Any]:
        """Returns the output without the poisoned elements."""
        return _END_MODELS[self.end.kind](_survivors(self.count, self.steps), self.end.poisoned)

    def expect_errors(self) -> set[str]:
        """Returns the texts of the errors of all poisoned elements that reach their step."""
        found: set[str] = set()
        for place, step in enumerate(self.steps):
            reached = step.poisoned.intersection(_survivors(self.count, self.steps[:place]))
            if step.kind != "plain":
                found |= {f"{_ERRORS[step.kind]} {number}" for number in reached}
        values = _survivors(self.count, self.steps)
        match self.end.kind:
            case "group":
                kept = _group(values).values()
                found |= {
                    f"group {tuple(sorted(group))}"
                    for group in kept
                    if self.end.poisoned.intersection(group)
                }
            case "combine":
                totals = {total for _, total in _sum_groups(values, frozenset())}
                found |= {f"sum {total}" for total in self.end.poisoned & totals}
            case kind:
                reached = self.end.poisoned.intersection(values)
                found |= {f"{_ERRORS[kind]} {number}" for number in reached}
        return found


_ERRORS = {
    "map": "map",
    "twice": "map",
    "side": "map",
    "none": "map",
    "encode": "encoding",
    "decode": "decoding",
    "flush": "flush",
    "state": "state",
    "timer": "timer",
    "lifted": "combine",
}


def _survivors(count: int, steps: Iterable[Step]) -> list[int]:
    """Returns the numbers that pass the steps."""
    values = list(range(count))
    for step in steps:
        if step.kind != "plain":
            values = [value for value in values if value not in step.poisoned]
        if step.kind == "twice":
            values = [value for value in values for _ in range(2)]
    return values


class _Elementwise(beam.PTransform):
    def __init__(self, step: Step, side: beam.PCollection) -> None:
        super().__init__()
        self._step, self._side = step, side

    def expand(self, numbers: beam.PCollection) -> beam.PCollection:
        poisoned = self._step.poisoned
        match self._step.kind:
            case "map":
                return numbers | beam.Map(fail, poisoned)
            case "twice":
                return numbers | beam.FlatMap(lambda n: [fail(n, poisoned)] * 2)
            case "flush":
                return numbers | beam.ParDo(FlushNumbers(poisoned)).with_output_types(int)
            case "side":
                return numbers | beam.Map(fail, poisoned, beam.pvalue.AsList(self._side))
            case "plain":
                return numbers | beam.Map(lambda n: n)
            case kind:
                wrapped = numbers | beam.Map(
                    lambda n: Number(n, kind if n in poisoned else "")
                ).with_output_types(Number)
                return (
                    wrapped
                    | beam.Reshuffle()
                    | beam.Map(lambda number: number.value).with_output_types(int)
                )


class _End(beam.PTransform):
    def __init__(self, step: Step) -> None:
        super().__init__()
        self._step = step

    def expand(self, numbers: beam.PCollection) -> beam.PCollection:
        poisoned = self._step.poisoned
        pairs = numbers | "Key" >> beam.Map(lambda n: (n % KEYS, n)).with_output_types(
            tuple[int, int]
        )
        match self._step.kind:
            case "none":
                return numbers | beam.Map(fail, poisoned)
            case "state":
                return pairs | beam.ParDo(CountNumbers(poisoned))
            case "timer":
                return pairs | beam.ParDo(Echo(poisoned))
        windowed = pairs | beam.WindowInto(FixedWindows(WINDOW))
        match self._step.kind:
            case "lifted":
                found = windowed | beam.CombinePerKey(SumNumbers(poisoned, frozenset()))
            case "combine":
                found = windowed | beam.CombinePerKey(SumNumbers(frozenset(), poisoned))
            case _:
                found = (
                    windowed
                    | beam.GroupByKey()
                    | beam.Map(lambda group: (group[0], _check_group(group[1], poisoned)))
                )
        return found | "Unwindow" >> beam.WindowInto(GlobalWindows())


def _check_group(values: Iterable[int], poisoned: frozenset[int]) -> tuple[int, ...]:
    found = tuple(sorted(values))
    if poisoned.intersection(found):
        raise Poison(f"group {found}")
    return found


def _count_by_key(values: list[int], poisoned: frozenset[int]) -> list[Any]:
    counts = Counter(value % KEYS for value in values if value not in poisoned)
    return [(key, ordinal) for key, count in counts.items() for ordinal in range(count)]


def _echo(values: list[int], poisoned: frozenset[int]) -> list[Any]:
    return [value for value in sorted(set(values)) if value not in poisoned]


def _group(values: list[int]) -> dict[tuple[int, int], list[int]]:
    groups = defaultdict(list)
    for value in values:
        groups[value // WINDOW, value % KEYS].append(value)
    return groups


def _sum_elements(values: list[int], poisoned: frozenset[int]) -> list[Any]:
    kept = _group([value for value in values if value not in poisoned])
    return [(key, sum(group)) for (_, key), group in kept.items()]


def _sum_groups(values: list[int], poisoned: frozenset[int]) -> list[Any]:
    found = [(key, sum(group)) for (_, key), group in _group(values).items()]
    return [(key, total) for key, total in found if total not in poisoned]


def _list_groups(values: list[int], poisoned: frozenset[int]) -> list[Any]:
    groups = _group(values).items()
    return [
        (key, tuple(sorted(group)))
        for (_, key), group in groups
        if not poisoned.intersection(group)
    ]


_END_MODELS: dict[str, Callable[[list[int], frozenset[int]], list[Any]]] = {
    "none": lambda values, poisoned: [value for value in values if value not in poisoned],
    "state": _count_by_key,
    "timer": _echo,
    "lifted": _sum_elements,
    "combine": _sum_groups,
    "group": _list_groups,
}

coders.registry.register_coder(Number, NumberCoder)
pickle_by_value(__name__)
