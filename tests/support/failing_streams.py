"""Stream of numbers with a temporarily failing step and a known correct result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from jobs import pickle_by_value
from offsets import WATERMARK, Offsets

KEYS = 8
COUNT = 400


class NumberSource(beam.DoFn):
    """Source of the numbers below the element, a few at a time. The source is unbounded, though it
    ends.

    Args:
        wait_at: number before which the source waits for a file.
        file: path of this file.
        at_a_time: count of numbers between two checkpoints.
    """

    def __init__(self, wait_at: int = -1, file: Path = Path(), at_a_time: int = 20) -> None:
        self._wait_at, self._file, self._at_a_time = wait_at, file, at_a_time

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Offsets()),
        estimator: Any = WATERMARK,
    ) -> Iterator[TimestampedValue]:
        number = tracker.current_restriction().start
        estimator.set_watermark(Timestamp(number))
        for _ in range(self._at_a_time):
            if number == self._wait_at and not self._file.exists():
                break
            if not tracker.try_claim(number):
                return
            yield TimestampedValue(number, number)
            number += 1
        tracker.defer_remainder(Duration.of(0.05))


class FailUntilFileExists(beam.DoFn):
    """DoFn that raises at one number until a file exists."""

    def __init__(self, number: int, mended: Path) -> None:
        self._number, self._mended = number, mended

    def process(self, number: int) -> Iterator[int]:
        if number == self._number and not self._mended.exists():
            raise ValueError(f"not yet: {number}")
        yield number


class CountPerKey(beam.DoFn):
    """Stateful DoFn that emits the count of earlier numbers of the key, and the number."""

    SEEN = ReadModifyWriteStateSpec("seen", VarIntCoder())

    def process(
        self, pair: tuple[int, int], seen: Any = beam.DoFn.StateParam(SEEN)
    ) -> Iterator[tuple[int, int, int]]:
        count = seen.read() or 0
        seen.write(count + 1)
        yield (pair[0], count, pair[1])


class FailUntilFileExistsForPairs(beam.DoFn):
    """DoFn that checks the first element of each pair as `FailUntilFileExists` does, and emits the second."""

    def __init__(self, fails: FailUntilFileExists) -> None:
        self._fails = fails

    def process(self, pair: tuple[int, Any]) -> Iterator[Any]:
        for _ in self._fails.process(pair[0]):
            yield pair[1]


def check_ordinals(values: list[tuple[int, int, int]]) -> None:
    """Raises unless each number occurs once, and each key counted its numbers without a gap."""
    numbers = Counter(number for _, _, number in values)
    assert numbers == Counter(range(COUNT)), "numbers are lost or doubled"
    ordinals = Counter((key, ordinal) for key, ordinal, _ in values)
    assert ordinals == Counter((key, n) for key in range(KEYS) for n in range(COUNT // KEYS))


def count_by_key(numbers: beam.PCollection) -> beam.PCollection:
    return numbers | beam.Map(lambda n: (n % KEYS, n)) | "Count" >> beam.ParDo(CountPerKey())


pickle_by_value(__name__)
