"""Streams of numbers that a drain ends, written by a sink."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from beam_spark_io import WriteExactlyOnce
from offsets import WATERMARK, Offsets

ENDLESS = 10**9
WINDOWS = FixedWindows(100)


class Endless(Offsets):
    """Restriction provider that a drain ends."""

    def truncate(self, element: int, restriction: OffsetRange) -> OffsetRange | None:
        return None


class ReadNumbers(beam.DoFn):
    """Source that emits 40 numbers in each bundle, about 200 per second."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Endless()),
        estimator: Any = WATERMARK,
    ) -> Iterator[TimestampedValue]:
        position = tracker.current_restriction().start
        for _ in range(40):
            if not tracker.try_claim(position):
                return
            estimator.set_watermark(Timestamp(position))
            yield TimestampedValue({"source": element % 10, "number": position}, position)
            position += 1
            time.sleep(0.005)
        tracker.defer_remainder(Duration.of(0.01))


def build_stream(
    pipeline: beam.Pipeline,
    sink: Any,
    every: int | None,
    name_window: Callable[[Any], str] | None = None,
) -> None:
    """Builds a stream with two sources into a sink, in windows of 100 numbers of each source."""
    _ = (
        pipeline
        | beam.Create([ENDLESS, ENDLESS + 1])
        | beam.ParDo(ReadNumbers())
        | beam.WindowInto(WINDOWS)
        | WriteExactlyOnce(sink, every, name_window=name_window)
    )
