"""Stream with a constant rate and known correct results: counts by key and window, and sums in state.

Number ``i`` is due ``i / rate`` seconds after the start, and this is also its event time.
"""

from __future__ import annotations

import os
import random
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

KEYS = 20
WINDOW = 10
"""In seconds."""
_LATENCY_OF_EVERY = 50
"""Distance of the numbers whose latency is reported."""


@attrs.frozen
class Stream:
    """Parameters of a stream.

    Attributes:
        start: start time, seconds since 1970; a multiple of `WINDOW`.
        rate: numbers per second.
        seconds: duration; a multiple of `WINDOW`.
        latencies: file for the arrivals of numbers and their delays.
    """

    start: int
    rate: int
    seconds: int
    latencies: Path

    @property
    def count(self) -> int:
        """Count of the numbers."""
        return self.rate * self.seconds

    def due(self, number: int) -> float:
        """Returns the due time of a number, which is also its event time."""
        return self.start + number / self.rate

    def of_window(self, window: int, key: int) -> int:
        """Returns the count of numbers of a key in the window that starts at this time after the start, seconds."""
        return _of_key(self.rate * (window + WINDOW), key) - _of_key(self.rate * window, key)

    def of_key(self, key: int) -> tuple[int, int]:
        """Returns the count of numbers of a key, and their sum."""
        return _of_key(self.count, key), sum(range(key, self.count, KEYS))

    @property
    def results(self) -> dict[str, int]:
        """Returns the expected final counters."""
        windows = KEYS * (self.seconds // WINDOW)
        return {"right windows": windows, "wrong windows": 0, "right sums": KEYS, "wrong sums": 0}


def _of_key(below: int, key: int) -> int:
    return len(range(key, below, KEYS))


class _Summed(beam.DoFn):
    """Count and sum of each key in state, and by a bag and a timer once more window by window."""

    _SUM = ReadModifyWriteStateSpec("sum", TupleCoder([VarIntCoder(), VarIntCoder()]))
    _LATELY = BagStateSpec("lately", VarIntCoder())
    _EMPTY = TimerSpec("empty", TimeDomain.WATERMARK)
    _END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def process(
        self,
        element: tuple[int, int],
        timestamp: Any = beam.DoFn.TimestampParam,
        lately: Any = beam.DoFn.StateParam(_LATELY),
        empty: Any = beam.DoFn.TimerParam(_EMPTY),
        end: Any = beam.DoFn.TimerParam(_END),
    ) -> None:
        _, number = element
        if number % _LATENCY_OF_EVERY == 0:
            tell(self._stream.latencies, "number", self._stream.due(number))
        lately.add(number)
        into = float(timestamp) - self._stream.start
        empty.set(Timestamp(self._stream.start + (into // WINDOW + 1) * WINDOW))
        end.set(Timestamp(self._stream.start + self._stream.seconds + WINDOW))

    @on_timer(_EMPTY)
    def empty(
        self,
        lately: Any = beam.DoFn.StateParam(_LATELY),
        total: Any = beam.DoFn.StateParam(_SUM),
    ) -> None:
        numbers = list(lately.read())
        lately.clear()
        count, known = total.read() or (0, 0)
        total.write((count + len(numbers), known + sum(numbers)))

    @on_timer(_END)
    def end(
        self,
        key: Any = beam.DoFn.KeyParam,
        lately: Any = beam.DoFn.StateParam(_LATELY),
        total: Any = beam.DoFn.StateParam(_SUM),
    ) -> Iterator[tuple[int, tuple[int, int]]]:
        count, known = total.read() or (0, 0)
        rest = list(lately.read())
        yield key, (count + len(rest), known + sum(rest))


class _Check(beam.DoFn):
    """DoFn that compares results with the expected results, and reports counters."""

    def __init__(self, stream: Stream, what: str) -> None:
        self._stream = stream
        self._right = Metrics.counter("soak", f"right {what}")
        self._wrong = Metrics.counter("soak", f"wrong {what}")

    def _judge(self, is_right: bool) -> None:
        (self._right if is_right else self._wrong).inc()


class _CheckWindow(_Check):
    def process(
        self, element: tuple[int, Iterable[int]], window: Any = beam.DoFn.WindowParam
    ) -> None:
        key, numbers = element
        found = list(numbers)
        begin = int(float(window.start)) - self._stream.start
        expected = self._stream.of_window(begin, key)
        self._judge(len(found) == len(set(found)) == expected)
        tell(self._stream.latencies, "window", float(window.end))


class _CheckSum(_Check):
    def process(self, element: tuple[int, tuple[int, int]]) -> None:
        key, found = element
        self._judge(found == self._stream.of_key(key))


def tell(file: Path, kind: str, due: float) -> None:
    """Appends an arrival and its delay, seconds. A retried bundle appends its arrivals again."""
    now = time.time()
    line = f"{kind} {now:.3f} {now - due:.3f}\n".encode()
    target = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(target, line)
    finally:
        os.close(target)


def steady(pipeline: beam.Pipeline, stream: Stream) -> None:
    """Reads the stream, shuffles it at random, and checks it by window and by key."""
    numbers = (
        pipeline
        | beam.Create([stream.count])
        | beam.ParDo(ReadDueNumbers(stream.due)).with_output_types(int)
        | "at random" >> beam.Map(lambda n: (random.randrange(100), n))
        | beam.Reshuffle()
        | "by key" >> beam.MapTuple(lambda _, n: (n % KEYS, n)).with_output_types(tuple[int, int])
    )
    _ = (
        numbers
        | beam.WindowInto(FixedWindows(WINDOW))
        | beam.GroupByKey()
        | "windows" >> beam.ParDo(_CheckWindow(stream, "windows"))
    )
    _ = numbers | beam.ParDo(_Summed(stream)) | "sums" >> beam.ParDo(_CheckSum(stream, "sums"))
