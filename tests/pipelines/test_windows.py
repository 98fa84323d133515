"""Elements meet in windows, and groups get the event time that their timestamp combiner says."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from jobs import Pipelines, timestamped

GLOBAL_END = GlobalWindows.windowed_value(None).windows[0].max_timestamp()


class Describe(beam.DoFn):
    """(key, sorted values, start and end of the window, event time), times in seconds."""

    def process(
        self,
        element: Any,
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
    ) -> Any:
        key, values = element
        if isinstance(window, type(GlobalWindows.windowed_value(None).windows[0])):
            yield key, sorted(values), None, None, float(timestamp)
        else:
            yield key, sorted(values), float(window.start), float(window.end), float(timestamp)


def test_the_earliest_and_the_latest_time(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        edges = (
            p
            | beam.Create([0])
            | beam.FlatMap(
                lambda _: [
                    TimestampedValue(("first", 0), MIN_TIMESTAMP),
                    TimestampedValue(("last", 0), GLOBAL_END),
                ]
            )
            | beam.WindowInto(
                GlobalWindows(), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST
            )
            | beam.GroupByKey()
            | beam.Map(lambda kv, t=beam.DoFn.TimestampParam: (kv[0], t.micros // 1000))
        )
        assert GLOBAL_END < MAX_TIMESTAMP
        assert_that(
            edges,
            equal_to(
                [("first", MIN_TIMESTAMP.micros // 1000), ("last", GLOBAL_END.micros // 1000)]
            ),
        )


@pytest.mark.parametrize("flags", [(), ("--streaming",)], ids=["batch", "stream"])
def test_flatten_of_other_windows_keeps_the_windows_of_each_element(
    pipelines: Pipelines, flags: tuple[str, ...]
) -> None:
    """As Beam's own runner does it: Python's client only warns, and says fixed windows."""
    with pipelines.new(*flags) as p:
        both = [
            p
            | f"{name} events"
            >> timestamped([(("k", name), 1), (("k", name), 12)], tuple[str, str])
            | f"{name} windows" >> beam.WindowInto(window_fn)
            for name, window_fn in (("f", FixedWindows(10)), ("s", SlidingWindows(10, 5)))
        ]
        groups = both | beam.Flatten() | beam.GroupByKey() | beam.ParDo(Describe())
        spans = groups | beam.Map(lambda group: (group[1], group[2], group[3]))
        expected = [
            (["s"], -5, 5),
            (["f", "s"], 0, 10),
            (["s"], 5, 15),
            (["f", "s"], 10, 20),
        ]
        assert_that(spans, equal_to(expected))
