"""For the sources of tests: restrictions of numbers, and a watermark that the source tells."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from jobs import pickle_by_value


class Offsets(RestrictionProvider):
    """The numbers from 0 up to the element."""

    def initial_restriction(self, element: int) -> OffsetRange:
        """All of them, in one piece."""
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        """Claims number by number."""
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        """How many they are."""
        return restriction.size()


WATERMARK: Any = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())
"""A parameter of ``process``: takes the watermark by ``set_watermark``."""

pickle_by_value(__name__)
