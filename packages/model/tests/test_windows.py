"""Tests that windows are hashable and picklable values, with the last timestamps of Beam's model."""

from __future__ import annotations

import pickle

import pytest

from beam_runner_model.times import END_OF_GLOBAL_WINDOW
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow, OpaqueWindow


def test_max_timestamp_of_a_window_is_the_last_time_in_the_window() -> None:
    assert GLOBAL_WINDOW.max_timestamp() == END_OF_GLOBAL_WINDOW
    assert IntervalWindow(0, 10).max_timestamp() == 9
    assert OpaqueWindow(b"x", 7).max_timestamp() == 7


def test_unpickled_global_window_is_the_singleton() -> None:
    assert pickle.loads(pickle.dumps(GLOBAL_WINDOW)) is GLOBAL_WINDOW


@pytest.mark.parametrize("window", [IntervalWindow(-5, 3), OpaqueWindow(b"x", 7)])
def test_unpickled_window_is_equal(window: object) -> None:
    copy = pickle.loads(pickle.dumps(window))
    assert copy == window
    assert hash(copy) == hash(window)
