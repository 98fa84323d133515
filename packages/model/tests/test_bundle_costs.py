"""Tests of the costs of bundles: their sums, quantiles and size."""

from __future__ import annotations

import random
from functools import reduce

import pytest

from beam_runner_model.bundle_costs import (
    BundleCosts,
    DurationSummary,
    add_bundle_costs,
    decode_bundle_costs,
    encode_bundle_costs,
)


def add_all(payloads: list[bytes]) -> bytes:
    return reduce(add_bundle_costs, payloads)


def summarize(payload: bytes) -> DurationSummary:
    durations = decode_bundle_costs(payload).durations
    assert durations is not None
    return durations


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 3_600.0])
def test_duration_quantiles_are_close_to_exact_values(scale: float) -> None:
    chance = random.Random(7)
    durations = [scale * (1 + chance.lognormvariate(3, 1.5)) for _ in range(2_000)]
    total = add_all([encode_bundle_costs(one) for one in durations])
    found = summarize(total)
    durations.sort()
    assert found.count == 2_000
    assert found.min == pytest.approx(durations[0], abs=1e-6)
    assert found.max == pytest.approx(durations[-1], abs=1e-6)
    assert found.median == pytest.approx(durations[999], rel=0.07, abs=1e-6)
    assert found.p95 == pytest.approx(durations[1_899], rel=0.07, abs=1e-6)
    assert decode_bundle_costs(total).slot_seconds == pytest.approx(sum(durations), abs=2e-3)


def test_sum_of_costs_is_independent_of_order_and_grouping() -> None:
    chance = random.Random(8)
    payloads = [
        encode_bundle_costs(
            chance.expovariate(1.0), chance.random(), chance.randrange(1 << 33), is_finished=bool(n)
        )
        for n in range(200)
    ]
    expected = add_all(payloads)
    chance.shuffle(payloads)
    halves = [add_all(payloads[:90]), add_all(payloads[90:])]
    assert add_bundle_costs(*halves) == expected
    assert add_bundle_costs(*reversed(halves)) == expected


def test_costs_add_cpu_time_and_keep_largest_memory() -> None:
    one = encode_bundle_costs(0.5, 0.25, 300_000_000)
    other = encode_bundle_costs(1.5, 0.5, 200_000_000, is_finished=False)
    found = decode_bundle_costs(add_bundle_costs(one, other))
    assert (found.slot_seconds, found.cpu_seconds) == (2.0, 0.75)
    assert found.peak_memory_bytes == 300_000_000
    # The unfinished bundle has no final duration.
    assert found.durations == DurationSummary(1, 0.5, 0.5, 0.5, 0.5)
    assert decode_bundle_costs(encode_bundle_costs(2.0, is_finished=False)) == BundleCosts(2.0)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_costs_of_one_short_bundle_have_equal_quantiles(seconds: float) -> None:
    # A clock that runs backwards gives no negative duration.
    payload = encode_bundle_costs(seconds, seconds)
    assert summarize(payload) == DurationSummary(1, 0.0, 0.0, 0.0, 0.0)


def test_size_of_costs_is_bounded() -> None:
    day = add_all([encode_bundle_costs(1.02**power / 1e6) for power in range(1_272)])
    assert len(day) < 2_400
    assert len(encode_bundle_costs(1e300)) == 48


@pytest.mark.parametrize("payload", [b"", b"1234567", bytes(8), bytes(48), b"\xff" * 48])
def test_malformed_costs_raise_value_error(payload: bytes) -> None:
    with pytest.raises(ValueError):
        decode_bundle_costs(payload)
