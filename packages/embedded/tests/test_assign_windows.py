"""Tests that cached windows equal the windows that Beam computes for every element."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import window
from apache_beam.transforms.window import TimestampedValue, WindowFn
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from hypothesis import given
from hypothesis import strategies as st
from mini_runner import run

from beam_runner_embedded import assign_windows
from beam_runner_embedded.assign_windows import create_window_assigner

spans = st.integers(1, 50).map(lambda n: Duration(micros=n * 1000))
starts = st.integers(-100, 100).map(lambda n: Timestamp(micros=n * 700))
window_fns = st.one_of(
    st.builds(window.GlobalWindows),
    st.builds(window.FixedWindows, spans, starts),
    st.builds(window.SlidingWindows, spans, spans, starts),
    st.builds(window.Sessions, spans),
)
times = st.lists(
    st.one_of(
        st.integers(-100_000, 100_000),
        st.sampled_from([0, MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros]),
    ),
    max_size=20,
)


@given(window_fns, times)
def test_assigned_windows_equal_windows_of_beam(window_fn: WindowFn, micros: list[int]) -> None:
    windows_of = create_window_assigner(window_fn)
    assert windows_of is not None
    for time in micros:
        stock = window_fn.assign(WindowFn.AssignContext(Timestamp(micros=time)))
        assert windows_of(time) == tuple(stock)


def test_elements_in_same_windows_share_window_objects() -> None:
    windows_of = create_window_assigner(window.FixedWindows(1))
    assert windows_of is not None
    assert windows_of(1) is windows_of(999_999)
    assert windows_of(1) is not windows_of(1_000_000)


def test_window_cache_has_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assign_windows, "_MAX_CACHED_KEYS", 3)
    windows_of = create_window_assigner(window.Sessions(1))
    assert windows_of is not None
    first = windows_of(0)
    for time in range(1, 4):
        windows_of(time)
    assert windows_of(0) is not first
    assert windows_of(0) == first


class ByElement(window.NonMergingWindowFn):
    """A custom window function."""

    def assign(self, context: Any) -> list[Any]:
        return [window.IntervalWindow(0, context.element)]

    def get_window_coder(self) -> Any:
        return IntervalWindowCoder()


class Sometimes(ByElement):
    """A window function that assigns no window to odd elements."""

    def assign(self, context: Any) -> list[Any]:
        return [] if context.element % 2 else super().assign(context)


class Later(window.FixedWindows):
    """Another custom window function."""

    def assign(self, context: Any) -> list[Any]:
        return [window.IntervalWindow(7, 8)]


def test_custom_window_functions_are_called_for_each_element() -> None:
    assert create_window_assigner(ByElement()) is None
    assert create_window_assigner(Later(1)) is None


class Places(beam.DoFn):
    def process(
        self, number: int, at: Any = beam.DoFn.TimestampParam, within: Any = beam.DoFn.WindowParam
    ) -> Any:
        yield number, int(at), int(within.start), int(within.end)


def test_windowed_pipeline_assigns_windows() -> None:
    count = 300
    pipeline = beam.Pipeline()
    timed = (
        pipeline
        | beam.Create([None])
        | beam.FlatMap(lambda _: [TimestampedValue(number, number) for number in range(count)])
    )
    sliding = (
        timed | "Slide" >> beam.WindowInto(window.SlidingWindows(20, 10)) | beam.ParDo(Places())
    )
    # An element in several windows is assigned to windows once for each of them.
    again = (
        timed
        | "Twice" >> beam.WindowInto(window.SlidingWindows(20, 10))
        | "Fixed" >> beam.WindowInto(window.FixedWindows(100))
        | "Again" >> beam.ParDo(Places())
    )
    custom = timed | "Own" >> beam.WindowInto(ByElement()) | "Ends" >> beam.ParDo(Places())
    assert_that(
        sliding,
        equal_to(
            [(n, n, s, s + 20) for n in range(count) for s in (n // 10 * 10, n // 10 * 10 - 10)]
        ),
        "sliding",
    )
    fixed = [(n, n, n // 100 * 100, n // 100 * 100 + 100) for n in range(count)]
    assert_that(again, equal_to(fixed * 2), "again")
    assert_that(custom, equal_to([(n, n, 0, n) for n in range(count)]), "custom")
    run(pipeline)


def test_element_without_windows_is_dropped() -> None:
    count = 300
    pipeline = beam.Pipeline()
    timed = (
        pipeline
        | beam.Create([None])
        | beam.FlatMap(lambda _: [TimestampedValue(number, number) for number in range(count)])
    )
    gaps = timed | "Gaps" >> beam.WindowInto(window.SlidingWindows(size=2, period=4))
    own = timed | "Own" >> beam.WindowInto(Sometimes())
    again = (
        timed
        | "Twice" >> beam.WindowInto(window.SlidingWindows(20, 10))
        | "Some" >> beam.WindowInto(Sometimes())
    )
    in_gaps = [number for number in range(count) if number % 4 < 2]
    even = list(range(0, count, 2))
    for name, numbers, expected in (
        ("gaps", gaps, in_gaps),
        ("own", own, even),
        ("again", again, even * 2),
    ):
        # All properties that a DoFn sees, although it has no window parameter.
        seen = numbers | f"See {name}" >> beam.Map(lambda number: number)
        everywhere = seen | f"Global {name}" >> beam.WindowInto(window.GlobalWindows())
        assert_that(everywhere, equal_to(expected), name)
    run(pipeline)
