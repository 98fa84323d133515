"""Stream whose savepoint and state folder are stored for later versions, and its results.

The names of steps, the coders and the results must never change. The source and one step wait until the
file in an environment variable exists, because the code in a state folder can't get another path.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows, Sessions, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from offsets import WATERMARK, Offsets

GATE = "BEAM_KEPT_STREAM_GATE"
"""Environment variable with the path of a file, which lets the stream end when it exists."""
COUNT = 120
WAIT_AT = 75
"""Number before which the source waits, in the middle of a window."""
FAILS_AT = 60
"""Number for which a step fails until the file exists."""
KEYS = 4
WINDOW = 10
GAP = 6
OFFSET = 1000
Result = tuple[str, int, int]


def is_open() -> bool:
    return Path(os.environ[GATE]).exists()


class ReadNumbers(beam.DoFn):
    """Unbounded source of numbers, each with itself as its event time in seconds."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Offsets()),
        estimator: Any = WATERMARK,
    ) -> Iterator[TimestampedValue]:
        number = tracker.current_restriction().start
        estimator.set_watermark(Timestamp(number))
        for _ in range(5):
            if number == WAIT_AT and not is_open():
                break
            if not tracker.try_claim(number):
                return
            yield TimestampedValue(number, number)
            number += 1
        tracker.defer_remainder(Duration.of(0.05))


class Count(beam.DoFn):
    """Stateful DoFn that emits the ordinal of each number of a key."""

    SEEN = ReadModifyWriteStateSpec("seen", VarIntCoder())

    def process(
        self, pair: tuple[int, int], seen: Any = beam.DoFn.StateParam(SEEN)
    ) -> Iterator[Result]:
        ordinal = seen.read() or 0
        seen.write(ordinal + 1)
        yield "ordinal", pair[0], ordinal


class Remind(beam.DoFn):
    """Stateful DoFn that emits the numbers of a key in a timer at the end of the stream."""

    NUMBERS = BagStateSpec("numbers", VarIntCoder())
    TIMER = TimerSpec("remind", TimeDomain.WATERMARK)

    def process(
        self,
        pair: tuple[int, int],
        numbers: Any = beam.DoFn.StateParam(NUMBERS),
        timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> None:
        numbers.add(pair[1])
        timer.set(Timestamp(COUNT - 1))

    @on_timer(TIMER)
    def remind(
        self, key: Any = beam.DoFn.KeyParam, numbers: Any = beam.DoFn.StateParam(NUMBERS)
    ) -> Iterator[Result]:
        for number in numbers.read():
            yield "reminded", key, number


def fail_until_open(number: int) -> Result:
    if number == FAILS_AT and not is_open():
        raise ValueError("the gate is closed")
    return "passed", 0, number


def build(pipeline: beam.Pipeline) -> beam.PCollection:
    """Adds the stream to a pipeline; returns its results."""
    numbers = pipeline | "Begin" >> beam.Create([COUNT]) | "Read" >> beam.ParDo(ReadNumbers())
    pairs = numbers | "Key" >> beam.Map(lambda n: (n % KEYS, n)).with_output_types(tuple[int, int])
    windowed = numbers | "Windows" >> beam.WindowInto(FixedWindows(WINDOW))
    sums = windowed | "Sum" >> beam.CombineGlobally(sum).without_defaults()
    offset = pipeline | "Offset" >> beam.Create([OFFSET])
    sessions = pairs | "Sessions" >> beam.WindowInto(Sessions(GAP)) | "Group" >> beam.GroupByKey()
    results = (
        pairs | "Count" >> beam.ParDo(Count()),
        pairs | "Remind" >> beam.ParDo(Remind()),
        numbers | "Deal" >> beam.Reshuffle() | "Wait" >> beam.Map(fail_until_open),
        sessions
        | "Session" >> beam.Map(lambda group: ("session", group[0], len(list(group[1]))))
        | "Unwindow" >> beam.WindowInto(beam.window.GlobalWindows()),
        windowed
        | "Window" >> beam.Map(lambda n, total: ("window", n, total), beam.pvalue.AsSingleton(sums))
        | "Unwindow again" >> beam.WindowInto(beam.window.GlobalWindows()),
        numbers
        | "Add" >> beam.Map(lambda n, m: ("added", 0, n + m), beam.pvalue.AsSingleton(offset)),
    )
    typed = tuple(
        one | f"Type {number}" >> beam.Map(lambda result: result).with_output_types(Result)
        for number, one in enumerate(results)
    )
    return typed | "Results" >> beam.Flatten()


def check_results(found: Iterable[Result]) -> None:
    """Raises unless all results of the complete stream occur once."""
    totals = {n: sum(range(n // WINDOW * WINDOW, (n // WINDOW + 1) * WINDOW)) for n in range(COUNT)}
    expected = Counter[Result]()
    for number in range(COUNT):
        expected["ordinal", number % KEYS, number // KEYS] += 1
        expected["reminded", number % KEYS, number] += 1
        expected["passed", 0, number] += 1
        expected["window", number, totals[number]] += 1
        expected["added", 0, number + OFFSET] += 1
    for key in range(KEYS):
        expected["session", key, COUNT // KEYS] += 1
    found_counts = Counter(map(tuple, found))
    assert found_counts == expected, (found_counts - expected, expected - found_counts)
