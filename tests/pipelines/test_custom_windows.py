"""Windows of the user's own: other kinds of them, other ways of merging."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.coders import Coder
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import (
    IntervalWindow,
    TimestampedValue,
    WindowFn,
)
from jobs import Pipelines, timestamped

Pair = tuple[str, int]


class TouchingGaps(WindowFn):
    """Sessions with a gap of five, that end where an element of a hundred and more comes."""

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


def test_windows_that_merge(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        assert_that(grouped(p | timestamped(VALUES, Pair)), equal_to(EXPECTED))


@pytest.mark.parametrize("backwards", [False, True], ids=["in-order", "backwards"])
def test_windows_that_merge_step_by_step(pipelines: Pipelines, backwards: bool) -> None:
    stream = Stream().advance_watermark_to(0)
    for value, time in reversed(VALUES) if backwards else VALUES:
        stream = stream.add_elements([TimestampedValue(value, time)])
    with pipelines.new("--streaming") as p:
        found = grouped(p | stream.advance_watermark_to_infinity())
        assert_that(found, equal_to(EXPECTED))


def test_windows_that_merge_with_an_element_in_an_open_window(pipelines: Pipelines) -> None:
    """The window of the second element is open already, and the third element's overlaps it."""
    stream = (
        Stream()
        .advance_watermark_to(0)
        .add_elements([TimestampedValue(("a", 1), 20)])
        .add_elements([TimestampedValue(("a", 2), 20), TimestampedValue(("a", 3), 18)])
        .advance_watermark_to_infinity()
    )
    with pipelines.new("--streaming") as p:
        assert_that(grouped(p | stream), equal_to([("a", [1, 2, 3], 18, 25)]))
