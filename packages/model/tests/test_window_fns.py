"""Tests that windows are assigned as Beam's window functions assign them."""

from __future__ import annotations

import pytest
from apache_beam.transforms import window as beam_window
from apache_beam.utils.timestamp import Duration as BeamDuration
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_model.window_fns import (
    FixedWindows,
    GlobalWindows,
    OpaqueWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
    assign_windows,
)
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow

SMALL = st.integers(1, 50)


def _seconds(millis: int) -> BeamDuration:
    return BeamDuration(micros=millis * 1000)


@given(st.integers(-500, 500), SMALL, SMALL, st.integers(-60, 60))
def test_assigned_windows_equal_beam(timestamp: int, size: int, period: int, offset: int) -> None:
    fixed_offset, sliding_offset = offset % size, offset % period
    pairs: list[tuple[WindowFn, beam_window.WindowFn]] = [
        (
            FixedWindows(size, fixed_offset),
            beam_window.FixedWindows(_seconds(size), BeamTimestamp(micros=fixed_offset * 1000)),
        ),
        (
            SlidingWindows(size, period, sliding_offset),
            beam_window.SlidingWindows(
                _seconds(size), _seconds(period), BeamTimestamp(micros=sliding_offset * 1000)
            ),
        ),
        (Sessions(size), beam_window.Sessions(_seconds(size))),
    ]
    context = beam_window.WindowFn.AssignContext(
        BeamTimestamp(micros=timestamp * 1000), element=None
    )
    for ours, theirs in pairs:
        expected = [
            IntervalWindow(w.start.micros // 1000, w.end.micros // 1000)
            for w in theirs.assign(context)
        ]
        assert list(assign_windows(ours, timestamp)) == expected


def test_global_windows_assign_the_global_window() -> None:
    assert assign_windows(GlobalWindows(), 5) == (GLOBAL_WINDOW,)


def test_opaque_windows_raise_value_error() -> None:
    with pytest.raises(ValueError, match="only the SDK"):
        assign_windows(OpaqueWindows("my:fn"), 5)


def test_nonpositive_window_size_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"FixedWindows\.size must be above 0 ms, not 0"):
        FixedWindows(0)
