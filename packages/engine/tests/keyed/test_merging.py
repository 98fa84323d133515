"""Tests that session windows merge as in Beam, independent of their order."""

from __future__ import annotations

from apache_beam.transforms import window as beam_window
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp
from beam_runner_model.windows import IntervalWindow
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.keyed.merging import merge_sessions

WINDOWS = st.lists(
    st.builds(
        lambda start, size: IntervalWindow(start, start + size),
        st.integers(-40, 40),
        st.integers(1, 12),
    )
)


def _merged_by_beam(windows: list[IntervalWindow]) -> dict[IntervalWindow, IntervalWindow]:
    def theirs(window: IntervalWindow) -> beam_window.IntervalWindow:
        return beam_window.IntervalWindow(
            BeamTimestamp(micros=window.start * 1000), BeamTimestamp(micros=window.end * 1000)
        )

    def ours(window: beam_window.IntervalWindow) -> IntervalWindow:
        return IntervalWindow(window.start.micros // 1000, window.end.micros // 1000)

    merged = {window: window for window in windows}

    class Context(beam_window.WindowFn.MergeContext):
        def merge(
            self,
            to_be_merged: list[beam_window.IntervalWindow],
            merge_result: beam_window.IntervalWindow,
        ) -> None:
            for window in to_be_merged:
                merged[ours(window)] = ours(merge_result)

    beam_window.Sessions(1).merge(Context([theirs(window) for window in set(windows)]))
    return merged


@given(WINDOWS)
def test_merged_sessions_equal_beam(windows: list[IntervalWindow]) -> None:
    assert merge_sessions(windows) == _merged_by_beam(windows)


@given(WINDOWS, st.randoms(use_true_random=False))
def test_merged_sessions_are_order_independent_and_idempotent(
    windows: list[IntervalWindow], random: object
) -> None:
    merged = merge_sessions(windows)
    shuffled = list(windows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert merge_sessions(shuffled) == merged
    assert merge_sessions(merged.values()) == {window: window for window in merged.values()}


def test_touching_sessions_do_not_merge() -> None:
    touching = [IntervalWindow(0, 10), IntervalWindow(10, 20)]
    assert merge_sessions(touching) == {window: window for window in touching}
