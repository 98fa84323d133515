"""Tests that the bounds of time equal the bounds of Beam's model, and that arithmetic is clamped."""

from __future__ import annotations

import pytest
from apache_beam.portability import common_urns
from apache_beam.utils import timestamp as beam_timestamp

from beam_runner_model.times import (
    END_OF_GLOBAL_WINDOW,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    add_clamped_duration,
    align_time_after,
    align_time_down,
    clamp_timestamp,
)


def test_minimum_and_maximum_timestamps_equal_beam() -> None:
    assert beam_timestamp.MIN_TIMESTAMP.micros // 1000 == MIN_TIMESTAMP
    assert beam_timestamp.MAX_TIMESTAMP.micros // 1000 == MAX_TIMESTAMP
    constant = common_urns.constants.GLOBAL_WINDOW_MAX_TIMESTAMP_MILLIS.constant
    assert int(constant) == END_OF_GLOBAL_WINDOW


def test_time_arithmetic_is_clamped_at_the_bounds() -> None:
    assert add_clamped_duration(MAX_TIMESTAMP - 1, 5) == MAX_TIMESTAMP
    assert add_clamped_duration(MIN_TIMESTAMP + 1, -5) == MIN_TIMESTAMP
    assert add_clamped_duration(3, 4) == 7
    assert clamp_timestamp(12) == 12


@pytest.mark.parametrize(
    "time", [MIN_TIMESTAMP, -11, -10, 0, 4, 13, MAX_TIMESTAMP - 3, MAX_TIMESTAMP]
)
@pytest.mark.parametrize("offset", [0, 4, -3])
def test_aligned_times_before_and_after_enclose_a_time(time: int, offset: int) -> None:
    last, following = align_time_down(time, 10, offset), align_time_after(time, 10, offset)
    assert last <= time < following
    assert following - last == 10
    assert (last - offset) % 10 == 0
