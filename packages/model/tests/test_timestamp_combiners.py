"""Tests that timestamp combiners compute the output times of Beam's model and are associative."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_model.timestamp_combiners import TimestampCombiner, combine_timestamps
from beam_runner_model.windows import IntervalWindow

WINDOW = IntervalWindow(0, 100)
TIMES = st.lists(st.integers(0, 99), min_size=1)


def test_timestamp_combiner_returns_the_earliest_the_latest_or_the_window_end() -> None:
    times = [5, 3, 8]
    assert combine_timestamps(TimestampCombiner.EARLIEST, WINDOW, times) == 3
    assert combine_timestamps(TimestampCombiner.LATEST, WINDOW, times) == 8
    assert combine_timestamps(TimestampCombiner.END_OF_WINDOW, WINDOW, times) == 99


@given(st.sampled_from(TimestampCombiner), TIMES, TIMES)
def test_timestamp_combiner_is_associative(
    combiner: TimestampCombiner, left: list[int], right: list[int]
) -> None:
    halves = [combine_timestamps(combiner, WINDOW, times) for times in (left, right)]
    assert combine_timestamps(combiner, WINDOW, halves) == combine_timestamps(
        combiner, WINDOW, left + right
    )


@given(st.sampled_from(TimestampCombiner))
def test_timestamp_combiner_without_timestamps_returns_the_window_end(
    combiner: TimestampCombiner,
) -> None:
    assert combine_timestamps(combiner, WINDOW, []) == 99
