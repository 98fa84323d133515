"""Tests that the bounds of time equal the bounds of Beam's model, and that arithmetic is clamped."""

from __future__ import annotations

import pytest
from apache_beam.portability import common_urns
from apache_beam.utils import timestamp as beam_timestamp

from beam_runner_model.times import (
    END_OF_GLOBAL_WINDOW,
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    clamp,
    last_aligned,
    next_aligned,
    plus,
)


def test_bounds_are_those_of_the_model() -> None:
    assert beam_timestamp.MIN_TIMESTAMP.micros // 1000 == MIN_TIMESTAMP
    assert beam_timestamp.MAX_TIMESTAMP.micros // 1000 == MAX_TIMESTAMP
    constant = common_urns.constants.GLOBAL_WINDOW_MAX_TIMESTAMP_MILLIS.constant
    assert int(constant) == END_OF_GLOBAL_WINDOW


def test_arithmetic_stops_at_the_bounds() -> None:
    assert plus(MAX_TIMESTAMP - 1, 5) == MAX_TIMESTAMP
    assert plus(MIN_TIMESTAMP + 1, -5) == MIN_TIMESTAMP
    assert plus(3, 4) == 7
    assert clamp(12) == 12


@pytest.mark.parametrize(
    "time", [MIN_TIMESTAMP, -11, -10, 0, 4, 13, MAX_TIMESTAMP - 3, MAX_TIMESTAMP]
)
@pytest.mark.parametrize("offset", [0, 4, -3])
def test_multiples_of_a_period_lie_on_both_sides_of_any_time(time: int, offset: int) -> None:
    last, following = last_aligned(time, 10, offset), next_aligned(time, 10, offset)
    assert last <= time < following
    assert following - last == 10
    assert (last - offset) % 10 == 0
