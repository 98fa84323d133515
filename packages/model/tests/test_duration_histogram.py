"""Tests of histograms of durations: their sums, quantiles and size."""

from __future__ import annotations

import random
from functools import reduce

import pytest

from beam_runner_model.duration_histogram import (
    DurationSummary,
    add_duration_histograms,
    encode_duration,
    summarize_durations,
)


def add_all(payloads: list[bytes]) -> bytes:
    return reduce(add_duration_histograms, payloads)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 3_600.0])
def test_histogram_quantiles_are_close_to_exact_values(scale: float) -> None:
    chance = random.Random(7)
    durations = [scale * (1 + chance.lognormvariate(3, 1.5)) for _ in range(2_000)]
    found = summarize_durations(add_all([encode_duration(one) for one in durations]))
    durations.sort()
    assert found.count == 2_000
    assert found.min == pytest.approx(durations[0], abs=1e-6)
    assert found.max == pytest.approx(durations[-1], abs=1e-6)
    assert found.median == pytest.approx(durations[999], rel=0.07, abs=1e-6)
    assert found.p95 == pytest.approx(durations[1_899], rel=0.07, abs=1e-6)


def test_sum_of_histograms_is_independent_of_order_and_grouping() -> None:
    chance = random.Random(8)
    payloads = [encode_duration(chance.expovariate(1.0)) for _ in range(200)]
    expected = add_all(payloads)
    chance.shuffle(payloads)
    halves = [add_all(payloads[:90]), add_all(payloads[90:])]
    assert add_duration_histograms(*halves) == expected
    assert add_duration_histograms(*reversed(halves)) == expected


def test_histogram_of_one_duration_has_equal_quantiles() -> None:
    assert summarize_durations(encode_duration(0.25)) == DurationSummary(1, 0.25, 0.25, 0.25, 0.25)
    assert summarize_durations(encode_duration(0.0)) == DurationSummary(1, 0.0, 0.0, 0.0, 0.0)
    # A clock that runs backwards gives no negative duration.
    assert summarize_durations(encode_duration(-1.0)) == DurationSummary(1, 0.0, 0.0, 0.0, 0.0)


def test_size_of_histogram_is_bounded() -> None:
    day = add_all([encode_duration(1.02**power / 1e6) for power in range(1_272)])
    assert len(day) < 2_400
    assert len(encode_duration(1e300)) == 24


@pytest.mark.parametrize("payload", [b"", b"1234567", bytes(8), bytes(16), b"\xff" * 24])
def test_malformed_histogram_raises_value_error(payload: bytes) -> None:
    with pytest.raises(ValueError):
        summarize_durations(payload)
