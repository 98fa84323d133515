"""Restrictions of numbers, and a manual watermark, for the sources of tests."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from jobs import pickle_by_value


class Offsets(RestrictionProvider):
    """Restriction provider of the numbers from 0 up to the element."""

    def initial_restriction(self, element: int) -> OffsetRange:
        """Returns all numbers below the element as one restriction."""
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        """Returns a tracker that claims number by number."""
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        """Returns the count of numbers in a restriction."""
        return restriction.size()


WATERMARK: Any = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())
"""Parameter of ``process`` that sets the watermark by ``set_watermark``."""

pickle_by_value(__name__)
