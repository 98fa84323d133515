"""Two pipelines with nondeterministic user code, which count the arrivals at their end."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from offsets import WATERMARK, Offsets

WINDOW = 50
"""Size of windows, seconds; one number per second."""
ENDLESS = 10**6
"""Count of numbers that a stream never reaches."""

Victim = Callable[[beam.Pipeline, int, Path], None]
"""Function that builds a pipeline over this count of numbers. An endless source runs until the file exists."""


class Count(beam.DoFn):
    """DoFn that counts the elements."""

    def __init__(self, name: str, seconds: float = 0.0) -> None:
        self._count = Metrics.counter("kills", name)
        self._seconds = seconds

    def process(self, element: Any) -> Iterator[Any]:
        self._count.inc()
        if self._seconds:
            time.sleep(self._seconds)
        yield element


Arrival = tuple[int, int, int]
"""Number at the end of the pipeline, its key, and its ordinal within the key."""


class Check(beam.DoFn):
    """Last stage, which counts the lost and the duplicate numbers in counters.

    It also counts the windows and keys of the numbers, and the wrong values of state.
    """

    def __init__(self, count: int | None) -> None:
        self._count = count
        self._counters = {
            name: Metrics.counter("kills", name)
            for name in ("arrived", "lost", "doubled", "windows", "wrong")
        }

    def process(self, element: tuple[None, Iterable[Arrival]]) -> None:
        arrivals = list(element[1])
        times = Counter(number for number, _, _ in arrivals)
        count = max(times) + 1 if self._count is None else self._count
        self._counters["arrived"].inc(times.total())
        self._counters["lost"].inc(count - len(times))
        self._counters["doubled"].inc(times.total() - len(times))
        windows: dict[tuple[int, int], list[int]] = {}
        for number, key, index in arrivals:
            windows.setdefault((number // WINDOW, key), []).append(index)
        self._counters["windows"].inc(len(windows))
        wrong = [found for found in windows.values() if sorted(found) != list(range(len(found)))]
        self._counters["wrong"].inc(len(wrong))


class Numbered(beam.DoFn):
    """Counts the numbers of each key and window in state; a timer at the window's end is counted."""

    _COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())
    _END = TimerSpec("end", TimeDomain.WATERMARK)

    def __init__(self) -> None:
        self._fired = Metrics.counter("kills", "fired")

    def process(
        self,
        element: tuple[int, int],
        window: Any = beam.DoFn.WindowParam,
        count: Any = beam.DoFn.StateParam(_COUNT),
        end: Any = beam.DoFn.TimerParam(_END),
    ) -> Iterator[tuple[int, Arrival]]:
        key, number = element
        index = count.read() or 0
        count.write(index + 1)
        end.set(window.end)
        yield key, (number, key, index)

    @on_timer(_END)
    def ended(self) -> None:
        self._fired.inc()


class RandomKeys(beam.DoFn):
    """Never the same key, run again; slowly."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def process(self, element: int) -> Iterator[tuple[bytes, int]]:
        time.sleep(self._seconds * random.uniform(0.5, 1.5))
        yield uuid.uuid4().bytes, element


def check(numbers: beam.PCollection, count: int | None) -> None:
    """Checks one group of all arrivals, at the pipeline's end."""
    everything = numbers | "to one" >> beam.Map(lambda n: (None, n)) | "one" >> beam.GroupByKey()
    everything | beam.ParDo(Check(count))


def check_stream(pairs: beam.PCollection, seconds: int) -> None:
    """Counts numbers by random keys in windows of this size (s), and all together at the end."""
    numbers = (
        pairs
        | "windows" >> beam.WindowInto(FixedWindows(seconds))
        | "by five" >> beam.GroupByKey()
        | beam.FlatMapTuple(lambda key, values: values)
        | "arrivals" >> beam.Map(lambda number: (number, number, 0))
        | "one window" >> beam.WindowInto(FixedWindows(10**10))
    )
    check(numbers, None)


def bounded(pipeline: beam.Pipeline, count: int, stop: Path, seconds: float = 0.002) -> None:
    """Builds a batch with two shuffles by random keys."""
    numbers = (
        pipeline
        | beam.Create(range(count))
        | beam.Reshuffle()
        | beam.ParDo(RandomKeys(seconds))
        | beam.GroupByKey()
        | beam.FlatMapTuple(lambda key, values: values)
        | beam.ParDo(Count("first", seconds))
        | "seven" >> beam.Map(lambda n: (random.randrange(7), n))
        | "by seven" >> beam.GroupByKey()
        | "of seven" >> beam.FlatMapTuple(lambda key, values: values)
        | "second" >> beam.ParDo(Count("second"))
        | "arrivals" >> beam.Map(lambda n: (n, n, 0))
    )
    check(numbers, count)


class Ends(Offsets):
    """Restriction provider that truncates endless restrictions in a drain."""

    def truncate(self, element: int, restriction: OffsetRange) -> OffsetRange | None:
        """Returns nothing for endless restrictions, and other restrictions unchanged."""
        return None if element >= ENDLESS else restriction


class Read(beam.DoFn):
    """Source of numbers, one per second of event time; a file ends the source early."""

    def __init__(self, stop: Path, seconds: float) -> None:
        self._stop = stop
        self._seconds = seconds

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Ends()),
        estimator: Any = WATERMARK,
    ) -> Iterator[TimestampedValue]:
        position = tracker.current_restriction().start
        for _ in range(random.randrange(10, 60)):
            if self._stop.exists():
                tracker.try_claim(tracker.current_restriction().stop)
                return
            if not tracker.try_claim(position):
                return
            estimator.set_watermark(Timestamp(position))
            yield TimestampedValue(position, Timestamp(position))
            position += 1
            time.sleep(self._seconds)
        tracker.defer_remainder(Duration.of(0.01))


def unbounded(pipeline: beam.Pipeline, count: int, stop: Path, seconds: float = 0.002) -> None:
    """Builds a stream that is counted by random keys in windows, with state and timers, and grouped."""
    numbers = (
        pipeline
        | beam.Create([count])
        | beam.ParDo(Read(stop, seconds))
        | beam.ParDo(Count("first"))
        | "windows" >> beam.WindowInto(FixedWindows(WINDOW))
        | "five" >> beam.Map(lambda n: (random.randrange(5), n)).with_output_types(tuple[int, int])
        | "state" >> beam.ParDo(Numbered())
        | "by five" >> beam.GroupByKey()
        | "of five" >> beam.FlatMapTuple(lambda key, values: values)
        | "second" >> beam.ParDo(Count("second"))
        | "one window" >> beam.WindowInto(FixedWindows(10**9))
    )
    check(numbers, None if count >= ENDLESS else count)
