"""Stream of numbers with editable steps: exact counts by window, and exact sums by key in state."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.coders import TupleCoder, VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp
from due_numbers import ReadDueNumbers

KEYS = 5
WINDOW = 2
"""In seconds."""
RATE = 50
"""Numbers per second."""


@attrs.frozen
class Stream:
    """Parameters of a stream.

    Attributes:
        start: start in seconds since 1970.
        seconds: duration in seconds.
        log: file to which the checks append their results. A retried bundle appends its results
            again.
        may_end: file that a test creates when the stream may end. The last number waits for it, so
            that the stream can't end before a test has finished its updates.
    """

    start: int
    seconds: int
    log: str
    may_end: str

    @property
    def count(self) -> int:
        """Count of the numbers."""
        return RATE * self.seconds

    @property
    def end(self) -> float:
        """Time at which the last number is due."""
        return self.start + self.seconds

    def due(self, number: int) -> float:
        """Returns the due time of a number, which is also its event time."""
        return self.start + number / RATE

    def is_held(self, number: int) -> bool:
        """Returns whether a number is the last number and waits for the test."""
        return number == self.count - 1 and not Path(self.may_end).exists()

    def of_window(self, start: float, key: int) -> int:
        """Returns the count of numbers of a key in the window that starts at a time."""
        first = round((start - self.start) * RATE)
        return sum(number % KEYS == key for number in range(first, first + WINDOW * RATE))

    def of_key(self, key: int) -> tuple[int, int]:
        """Returns the count of numbers of a key, and their sum."""
        numbers = range(key, self.count, KEYS)
        return len(numbers), sum(numbers)

    @property
    def results(self) -> dict[str, int]:
        """Returns the expected sums of the counters of all jobs."""
        windows = KEYS * (self.seconds // WINDOW)
        return {"right windows": windows, "wrong windows": 0, "right sums": KEYS, "wrong sums": 0}

    def count_logged_results(self) -> dict[str, int]:
        """Returns the counts of different results in the log."""
        lines = set(Path(self.log).read_text().splitlines())
        return {what: sum(line.startswith(what) for line in lines) for what in self.results}


@attrs.frozen
class Edit:
    """Version of the pipeline.

    Attributes:
        inserted: stateless steps before the stateful step and the windows.
        is_shuffled: whether a Reshuffle follows the source.
        sums: name of the stateful step.
        kind: coder of the sum: "tuple" or, which no other version can read, "text".
        fails: whether a step raises an error for each element.
        slow: seconds that a step takes for each element.
        reminds: whether the stateful step has another state and another timer.
        thins: whether the windows miss each tenth number.
    """

    inserted: int = 0
    is_shuffled: bool = True
    sums: str = "Sums"
    kind: str = "tuple"
    fails: bool = False
    slow: float = 0.0
    reminds: bool = False
    thins: bool = False


def _sum_dofn(stream: Stream, edit: Edit) -> beam.DoFn:
    coder = beam.coders.StrUtf8Coder() if edit.kind == "text" else None

    class Summed(beam.DoFn):
        """Count and sum of each key in state, and a bag that a timer empties."""

        SUM = ReadModifyWriteStateSpec("sum", coder or TupleCoder([VarIntCoder(), VarIntCoder()]))
        LATELY = BagStateSpec("lately", VarIntCoder())
        EMPTY = TimerSpec("empty", TimeDomain.WATERMARK)
        END = TimerSpec("end", TimeDomain.WATERMARK)

        def process(
            self,
            element: tuple[int, int],
            timestamp: Any = beam.DoFn.TimestampParam,
            lately: Any = beam.DoFn.StateParam(LATELY),
            empty: Any = beam.DoFn.TimerParam(EMPTY),
            end: Any = beam.DoFn.TimerParam(END),
        ) -> None:
            lately.add(element[1])
            empty.set(Timestamp(int(float(timestamp)) + 1))
            end.set(Timestamp(stream.end + WINDOW))

        @on_timer(EMPTY)
        def empty(
            self,
            lately: Any = beam.DoFn.StateParam(LATELY),
            total: Any = beam.DoFn.StateParam(SUM),
        ) -> None:
            numbers = list(lately.read())
            lately.clear()
            count, known = total.read() or (0, 0)
            total.write((count + len(numbers), known + sum(numbers)))

        @on_timer(END)
        def end(
            self,
            key: Any = beam.DoFn.KeyParam,
            lately: Any = beam.DoFn.StateParam(LATELY),
            total: Any = beam.DoFn.StateParam(SUM),
        ) -> Iterator[tuple[int, tuple[int, int]]]:
            count, known = total.read() or (0, 0)
            rest = list(lately.read())
            yield key, (count + len(rest), known + sum(rest))

    return _add_reminder(Summed, stream) if edit.reminds else Summed()


def _add_reminder(summed: Any, stream: Stream) -> beam.DoFn:
    """Returns a DoFn with the state and timers of another DoFn, and one more of each."""

    class Reminding(summed):  # type: ignore[misc]
        """Sums with a bag that a timer empties at the end of the stream."""

        SEEN = BagStateSpec("seen", VarIntCoder())
        REMIND = TimerSpec("remind", TimeDomain.WATERMARK)

        def process(
            self,
            element: tuple[int, int],
            timestamp: Any = beam.DoFn.TimestampParam,
            lately: Any = beam.DoFn.StateParam(summed.LATELY),
            empty: Any = beam.DoFn.TimerParam(summed.EMPTY),
            end: Any = beam.DoFn.TimerParam(summed.END),
            seen: Any = beam.DoFn.StateParam(SEEN),
            remind: Any = beam.DoFn.TimerParam(REMIND),
        ) -> None:
            super().process(element, timestamp, lately, empty, end)
            seen.add(element[1])
            remind.set(Timestamp(stream.end + WINDOW))

        @on_timer(REMIND)
        def remind(self, seen: Any = beam.DoFn.StateParam(SEEN)) -> None:
            seen.clear()

    return Reminding()


class _Check(beam.DoFn):
    """DoFn that compares results with the expected results, and reports counters."""

    def __init__(self, stream: Stream, what: str) -> None:
        self._stream = stream
        self._what = what
        self._right = Metrics.counter("updates", f"right {what}")
        self._wrong = Metrics.counter("updates", f"wrong {what}")

    def _judge(self, is_right: bool, *result: object) -> None:
        (self._right if is_right else self._wrong).inc()
        line = f"{'right' if is_right else 'wrong'} {self._what} {result}\n"
        target = os.open(self._stream.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(target, line.encode())
        finally:
            os.close(target)


class _CheckWindow(_Check):
    def process(
        self, element: tuple[int, Iterable[int]], window: Any = beam.DoFn.WindowParam
    ) -> None:
        key, numbers = element
        found = list(numbers)
        expected = self._stream.of_window(float(window.start), key)
        is_right = len(found) == len(set(found)) == expected
        self._judge(is_right, float(window.start), key, len(found))


class _CheckSum(_Check):
    def process(self, element: tuple[int, tuple[int, int]]) -> None:
        key, found = element
        self._judge(found == self._stream.of_key(key), key, *found)


class _Slow(beam.DoFn):
    """Step that takes time, or that fails."""

    def __init__(self, edit: Edit) -> None:
        self._edit = edit

    def process(self, element: Any) -> Iterator[Any]:
        if self._edit.fails:
            raise ValueError("this version fails for each element")
        time.sleep(self._edit.slow)
        yield element


def build(pipeline: beam.Pipeline, stream: Stream, edit: Edit) -> None:
    """Builds a version of the pipeline, which checks all numbers by window and by key."""
    numbers = (
        pipeline
        | "Begin" >> beam.Create([stream.count])
        | "Read" >> beam.ParDo(ReadDueNumbers(stream.due, stream.is_held)).with_output_types(int)
    )
    if edit.is_shuffled:
        numbers = numbers | "Spread" >> beam.Reshuffle()
    for number in range(edit.inserted):
        numbers = numbers | f"Inserted {number}" >> beam.Map(lambda n: n).with_output_types(int)
    if edit.fails or edit.slow:
        numbers = numbers | "Slow" >> beam.ParDo(_Slow(edit)).with_output_types(int)
    keyed = numbers | "Key" >> beam.Map(lambda n: (n % KEYS, n)).with_output_types(tuple[int, int])
    windowed = keyed
    if edit.thins:
        windowed = keyed | "Thin" >> beam.Filter(lambda pair: pair[1] % 10 != 0)
    _ = (
        windowed
        | "Windows" >> beam.WindowInto(FixedWindows(WINDOW))
        | "Group" >> beam.GroupByKey()
        | "Check windows" >> beam.ParDo(_CheckWindow(stream, "windows"))
    )
    _ = (
        keyed
        | edit.sums >> beam.ParDo(_sum_dofn(stream, edit))
        | "Check sums" >> beam.ParDo(_CheckSum(stream, "sums"))
    )
