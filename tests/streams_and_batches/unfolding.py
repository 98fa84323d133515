"""A splittable DoFn inside of pipelines: some elements for each, with pauses between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

_MOST = 4


def parts_of(value: int) -> int:
    """Returns the number of elements that a value becomes."""
    return value % _MOST


class _Parts(RestrictionProvider):
    """Restriction of the part numbers of an element. A drain doesn't truncate it, because it is bounded."""

    def initial_restriction(self, element: tuple[str, int]) -> OffsetRange:
        return OffsetRange(0, parts_of(element[1]))

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: tuple[str, int], restriction: OffsetRange) -> int:
        return restriction.size()


class Unfold(beam.DoFn):
    """Returns the parts of elements at increasing timestamps.

    Args:
        by: distance of two parts, milliseconds.
    """

    def __init__(self, by: int) -> None:
        self._by = by

    def process(
        self,
        element: tuple[str, int],
        time: Any = beam.DoFn.TimestampParam,
        tracker: Any = beam.DoFn.RestrictionParam(_Parts()),
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(
            ManualWatermarkEstimator.default_provider()
        ),
    ) -> Iterator[TimestampedValue]:
        part = tracker.current_restriction().start
        while tracker.try_claim(part):
            at = Timestamp(micros=time.micros + 1000 * self._by * part)
            yield TimestampedValue((element[0], element[1] + part), at)
            part += 1
            estimator.set_watermark(Timestamp(micros=time.micros + 1000 * self._by * part))
            if element[1] % 2 and part < parts_of(element[1]):
                tracker.defer_remainder(Duration.of(0.003))
                return
