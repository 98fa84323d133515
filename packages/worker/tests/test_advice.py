"""Tests of advice about unclear errors of Beam."""

from __future__ import annotations

import traceback

import pytest
from apache_beam.pvalue import EmptySideInput
from apache_beam.transforms.sideinputs import default_window_mapping_fn
from apache_beam.transforms.window import IntervalWindow, SlidingWindows

from beam_runner_worker.advice import add_error_advice


def test_advice_explains_window_in_gap_of_its_side_input() -> None:
    mapping = default_window_mapping_fn(SlidingWindows(2, 4))
    assert mapping(IntervalWindow(0, 6)) == IntervalWindow(4, 6)
    with pytest.raises(IndexError) as raised:
        mapping(IntervalWindow(0, 4))
    trace = "".join(traceback.format_exception(raised.value))
    told = add_error_advice(f"IndexError: {raised.value}", trace)
    assert told.startswith("IndexError: list index out of range (") and "gap" in told


def test_advice_ignores_index_error_of_user_code() -> None:
    with pytest.raises(IndexError) as raised:
        [][0]
    trace = "".join(traceback.format_exception(raised.value))
    assert add_error_advice("IndexError: list index out of range", trace).endswith("range")


def test_advice_explains_singleton_without_element() -> None:
    with pytest.raises(TypeError) as raised:
        EmptySideInput() + 1  # type: ignore[operator]
    assert "default_value" in add_error_advice(f"TypeError: {raised.value}")
