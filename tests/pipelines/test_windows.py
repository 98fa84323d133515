"""Elements meet in windows, and groups get the event time that their timestamp combiner says."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
    WindowFn,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from jobs import Pipelines, timestamped

# Event times in seconds of the values of two keys.
EVENTS = [("a", 1), ("a", 3), ("a", 12), ("b", 14), ("a", 14.5)]
COMBINERS = {
    "end": TimestampCombiner.OUTPUT_AT_EOW,
    "earliest": TimestampCombiner.OUTPUT_AT_EARLIEST,
    "latest": TimestampCombiner.OUTPUT_AT_LATEST,
}
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


def expected(windows: dict[tuple[str, float, float], list[float]], combiner: str) -> list[Any]:
    """From the event times of each key and window what :class:`Describe` says of the group."""
    at = {
        "end": lambda _, end: end - 0.001,
        "earliest": lambda times, _: min(times),
        "latest": lambda times, _: max(times),
    }[combiner]
    return [
        (key, sorted(times), start, end, at(times, end))
        for (key, start, end), times in windows.items()
    ]


def groups(p: beam.Pipeline, window_fn: WindowFn, combiner: str) -> beam.PCollection:
    return (
        p
        | timestamped([((key, float(time)), time) for key, time in EVENTS], tuple[str, float])
        | beam.WindowInto(window_fn, timestamp_combiner=COMBINERS[combiner])
        | beam.GroupByKey()
        | beam.ParDo(Describe())
    )


CASES: dict[str, tuple[WindowFn, dict[tuple[str, float, float], list[float]]]] = {
    "fixed": (
        FixedWindows(10),
        {("a", 0, 10): [1, 3], ("a", 10, 20): [12, 14.5], ("b", 10, 20): [14]},
    ),
    "fixed with offset": (
        FixedWindows(10, offset=2),
        {("a", -8, 2): [1], ("a", 2, 12): [3], ("a", 12, 22): [12, 14.5], ("b", 12, 22): [14]},
    ),
    "sliding": (
        SlidingWindows(10, 5),
        {
            ("a", -5, 5): [1, 3],
            ("a", 0, 10): [1, 3],
            ("a", 5, 15): [12, 14.5],
            ("a", 10, 20): [12, 14.5],
            ("b", 5, 15): [14],
            ("b", 10, 20): [14],
        },
    ),
    "sessions": (
        Sessions(3),
        {("a", 1, 6): [1, 3], ("a", 12, 17.5): [12, 14.5], ("b", 14, 17): [14]},
    ),
}


@pytest.mark.parametrize("combiner", COMBINERS)
def test_groups_by_window(pipelines: Pipelines, combiner: str) -> None:
    with pipelines.new() as p:
        for name, (window_fn, windows) in CASES.items():
            grouped = name >> _Grouped(window_fn, combiner)
            assert_that(p | grouped, equal_to(expected(windows, combiner)), label=f"check {name}")


class _Grouped(beam.PTransform):
    def __init__(self, window_fn: WindowFn, combiner: str) -> None:
        super().__init__()
        self._window_fn = window_fn
        self._combiner = combiner

    def expand(self, root: Any) -> beam.PCollection:
        return groups(root.pipeline, self._window_fn, self._combiner)


@pytest.mark.parametrize("combiner", COMBINERS)
def test_groups_in_the_global_window(pipelines: Pipelines, combiner: str) -> None:
    end = float(GLOBAL_END)
    at = {"end": (end, end), "earliest": (1, 14), "latest": (14.5, 14)}[combiner]
    with pipelines.new() as p:
        assert_that(
            groups(p, GlobalWindows(), combiner),
            equal_to([("a", [1, 3, 12, 14.5], None, None, at[0]), ("b", [14], None, None, at[1])]),
        )


def test_combining_in_windows(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        events = p | timestamped([((key, 1), time) for key, time in EVENTS], tuple[str, int])
        for name, window_fn in (("fixed", FixedWindows(10)), ("sessions", Sessions(3))):
            counts = (
                events
                | f"{name} windows" >> beam.WindowInto(window_fn)
                | f"{name} sums" >> beam.CombinePerKey(sum)
            )
            assert_that(counts, equal_to([("a", 2), ("a", 2), ("b", 1)]), label=name)
        per_window = (
            events
            | beam.WindowInto(FixedWindows(10))
            | beam.CombineGlobally(beam.combiners.CountCombineFn()).without_defaults()
        )
        assert_that(per_window, equal_to([2, 3]), label="globally in windows")


def test_sessions_merge_across_bundles(pipelines: Pipelines) -> None:
    """The elements of a session come from different tasks and in any order."""
    with pipelines.new() as p:
        sessions = (
            p
            | beam.Create(range(60))
            | beam.Reshuffle()
            | beam.Map(
                lambda n: TimestampedValue(("k", 1), (n * 37 % 60) + (1000 if n % 2 else 0))
            ).with_output_types(tuple[str, int])
            | beam.WindowInto(Sessions(5))
            | beam.CombinePerKey(sum)
            | beam.ParDo(Spans())
        )
        assert_that(sessions, equal_to([("k", 30, 63.0), ("k", 30, 63.0)]))


class Spans(beam.DoFn):
    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Any:
        yield (*element, float(window.end - window.start))


def test_windows_after_windows(pipelines: Pipelines) -> None:
    """Groups of one windowing are windowed and grouped again, by the event times they got."""
    with pipelines.new() as p:
        again = (
            p
            | timestamped([(("k", 1), time) for time in (1, 2, 11, 12, 21)], tuple[str, int])
            | "tens" >> beam.WindowInto(FixedWindows(10))
            | "sum of ten" >> beam.CombinePerKey(sum)
            | "twenties" >> beam.WindowInto(FixedWindows(20))
            | beam.GroupByKey()
            | beam.ParDo(Describe())
        )
        assert_that(
            again, equal_to([("k", [2, 2], 0, 20, 20 - 0.001), ("k", [1], 20, 40, 40 - 0.001)])
        )


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
