"""Tests of custom merging windows, the limits of timestamps, and elements of several windowings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import Coder
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
    WindowFn,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from jobs import Pipelines, timestamped

GLOBAL_END = GlobalWindows.windowed_value(None).windows[0].max_timestamp()
Pair = tuple[str, int]


class TouchingGaps(WindowFn):
    """Sessions with a gap of five that end at an element of at least 100."""

    def assign(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        length = 1 if context.element[1] >= 100 else 5
        return [IntervalWindow(context.timestamp, context.timestamp + length)]

    def merge(self, context: WindowFn.MergeContext) -> None:
        group: list[IntervalWindow] = []
        for window in sorted(context.windows, key=lambda w: (w.start, w.end)):
            if group and window.start >= max(w.end for w in group):
                self._merge(context, group)
                group = []
            group.append(window)
        self._merge(context, group)

    def get_window_coder(self) -> Coder:
        return IntervalWindowCoder()

    @staticmethod
    def _merge(context: WindowFn.MergeContext, group: list[IntervalWindow]) -> None:
        if len(group) > 1:
            start, end = min(w.start for w in group), max(w.end for w in group)
            context.merge(group, IntervalWindow(start, end))


def grouped(values: beam.PCollection) -> beam.PCollection:
    return (
        values
        | beam.WindowInto(TouchingGaps())
        | beam.GroupByKey()
        | beam.Map(
            lambda group, w=beam.DoFn.WindowParam: (
                group[0],
                sorted(group[1]),
                int(w.start),
                int(w.end),
            )
        )
    )


VALUES = [(("a", 1), 1), (("a", 100), 4), (("a", 2), 5), (("a", 3), 12), (("b", 4), 2)]
EXPECTED = [("a", [1, 2, 100], 1, 10), ("a", [3], 12, 17), ("b", [4], 2, 7)]


def one_by_one(values: list[tuple[Pair, int]]) -> Stream:
    """Returns a script in which each value arrives alone."""
    script = Stream().advance_watermark_to(0)
    for value, time in values:
        script = script.add_elements([TimestampedValue(value, time)])
    return script.advance_watermark_to_infinity()


def in_an_open_window() -> Stream:
    """Returns a script in which the window of the second element is open, and the third element's overlaps it."""
    script = Stream().advance_watermark_to(0).add_elements([TimestampedValue(("a", 1), 20)])
    others = [TimestampedValue(("a", 2), 20), TimestampedValue(("a", 3), 18)]
    return script.add_elements(others).advance_watermark_to_infinity()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(lambda: timestamped(VALUES, Pair), EXPECTED, id="bounded"),
        pytest.param(lambda: one_by_one(VALUES), EXPECTED, id="in order"),
        pytest.param(lambda: one_by_one(VALUES[::-1]), EXPECTED, id="backwards"),
        pytest.param(in_an_open_window, [("a", [1, 2, 3], 18, 25)], id="in an open window"),
    ],
)
def test_merging_windows_give_exact_results(
    pipelines: Pipelines, source: Callable[[], beam.PTransform], expected: list[Any]
) -> None:
    made = source()
    with pipelines.new(*["--streaming"] * isinstance(made, Stream)) as p:
        assert_that(grouped(p | made), equal_to(expected))


def test_elements_at_the_minimum_and_maximum_timestamp_are_grouped(pipelines: Pipelines) -> None:
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
def test_flatten_of_different_windowings_keeps_the_window_of_each_element(
    pipelines: Pipelines, flags: tuple[str, ...]
) -> None:
    """Beam's own runner behaves the same. Python's client only warns, and declares fixed windows."""
    with pipelines.new(*flags) as p:
        both = [
            p
            | f"{name} events"
            >> timestamped([(("k", name), 1), (("k", name), 12)], tuple[str, str])
            | f"{name} windows" >> beam.WindowInto(window_fn)
            for name, window_fn in (("f", FixedWindows(10)), ("s", SlidingWindows(10, 5)))
        ]
        groups = both | beam.Flatten() | beam.GroupByKey()
        spans = groups | beam.Map(
            lambda group, w=beam.DoFn.WindowParam: (sorted(group[1]), int(w.start), int(w.end))
        )
        expected = [
            (["s"], -5, 5),
            (["f", "s"], 0, 10),
            (["s"], 5, 15),
            (["f", "s"], 10, 20),
        ]
        assert_that(spans, equal_to(expected))
