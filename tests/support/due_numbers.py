"""Source of numbers that become due one after the other, for streams with known results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from jobs import pickle_by_value
from offsets import WATERMARK, Offsets

_PAUSE = 0.1


class ReadDueNumbers(beam.DoFn):
    """DoFn that reads the numbers that are due, and then pauses. Its element is the count of numbers.

    Args:
        due: returns the due time of a number, seconds since 1970, which is also its event time.
        is_held: returns whether a number waits although its time is due.
    """

    def __init__(
        self, due: Callable[[int], float], is_held: Callable[[int], bool] | None = None
    ) -> None:
        self._due = due
        self._is_held = is_held

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Offsets()),
        estimator: Any = WATERMARK,
    ) -> Iterator[TimestampedValue]:
        number = tracker.current_restriction().start
        while number >= element or self._is_due(number):
            if not tracker.try_claim(number):
                return
            at = Timestamp(self._due(number))
            estimator.set_watermark(at)
            yield TimestampedValue(number, at)
            number += 1
        tracker.defer_remainder(Duration.of(_PAUSE))

    def _is_due(self, number: int) -> bool:
        is_held = self._is_held is not None and self._is_held(number)
        return self._due(number) <= time.time() and not is_held


pickle_by_value(__name__)
