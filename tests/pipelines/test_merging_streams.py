"""Tests of merging windows in streams whose watermark is as late as possible."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.portability import python_urns
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import (
    Sessions,
    TimestampedValue,
)
from apache_beam.utils.timestamp import Duration, Timestamp
from jobs import Pipelines
from offsets import WATERMARK, Offsets

KEYS = ("a", "b", "c", "d")
SESSIONS, LENGTH, AT_A_TIME = 6, 10, 2
APART, GAP, BETWEEN = 0.005, 0.012, 0.2
WHOLE = [(key, LENGTH) for key in KEYS for _ in range(SESSIONS)]


def time_of(number: int) -> Timestamp:
    session, place = divmod(number, LENGTH)
    return Timestamp(BETWEEN * session + APART * place)


class Visits(beam.DoFn):
    """An element of each key at each time. The watermark is the time of the next elements."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Offsets()),
        estimator: Any = WATERMARK,
    ) -> Iterator[TimestampedValue]:
        first = tracker.current_restriction().start
        for number in range(first, first + AT_A_TIME):
            if not tracker.try_claim(number):
                return
            for key in KEYS:
                yield TimestampedValue((key, 1), time_of(number))
            estimator.set_watermark(time_of(number + 1))
        tracker.defer_remainder(Duration.of(0.002))


class Packed(beam.PTransform):
    """Two combiners that Beam's client packs into one combiner."""

    def annotations(self) -> dict[str, bytes]:
        return {python_urns.APPLY_COMBINER_PACKING: b""}

    def expand(self, visits: beam.PCollection) -> tuple[beam.PCollection, beam.PCollection]:
        return visits | beam.CombinePerKey(sum), visits | beam.CombinePerKey(max)


def test_session_windows_of_packed_combiners_have_all_elements(embedded: Pipelines) -> None:
    """Beam's client itself lifts packed combiners, without a CombinePerKey transform around them."""
    with embedded.new() as p:
        visits = p | beam.Create([SESSIONS * LENGTH]) | beam.ParDo(Visits())
        sums, most = visits | beam.WindowInto(Sessions(GAP)) | Packed()
        assert_that(sums, equal_to(WHOLE), label="sums")
        assert_that(most, equal_to([(key, 1) for key, _ in WHOLE]), label="most")
