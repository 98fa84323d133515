"""Tests of window coders, window expiry and trigger validation."""

from __future__ import annotations

import pickle

import pytest

from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.triggers import AfterAny, AfterCount, AfterEndOfWindow, Repeatedly
from beam_runner_model.window_coders import WindowCoder
from beam_runner_model.window_fns import FixedWindows, GlobalWindows, OpaqueWindows
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow


def test_window_function_determines_the_default_coder() -> None:
    assert WindowingStrategy().window_coder is WindowCoder.GLOBAL
    assert WindowingStrategy(FixedWindows(5)).window_coder is WindowCoder.INTERVAL
    assert WindowingStrategy(OpaqueWindows("u")).window_coder is WindowCoder.CUSTOM
    assert (
        WindowingStrategy(OpaqueWindows("u"), WindowCoder.INTERVAL).window_coder
        is WindowCoder.INTERVAL
    )


def test_window_expires_after_the_allowed_lateness() -> None:
    assert WindowingStrategy(allowed_lateness=5).get_expiry_time(IntervalWindow(0, 10)) == 14
    assert (
        WindowingStrategy(allowed_lateness=MAX_TIMESTAMP).get_expiry_time(GLOBAL_WINDOW)
        < MAX_TIMESTAMP
    )


def test_strategy_needs_merge_only_with_the_merge_status_needs_merge() -> None:
    assert WindowingStrategy(merge_status=MergeStatus.NEEDS_MERGE).needs_merge
    assert not WindowingStrategy(merge_status=MergeStatus.ALREADY_MERGED).needs_merge


def test_pickled_strategy_is_equal() -> None:
    strategy = WindowingStrategy(
        GlobalWindows(), trigger=Repeatedly(AfterEndOfWindow(early=AfterCount(2)))
    )
    copy = pickle.loads(pickle.dumps(strategy))
    assert copy == strategy
    assert hash(copy) == hash(strategy)


def test_invalid_trigger_raises_value_error() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        AfterCount(0)
    with pytest.raises(ValueError, match="AfterAny needs at least one subtrigger"):
        AfterAny(())
