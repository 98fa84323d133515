"""Tests that processing time advances independently of the wall clock."""

from __future__ import annotations

import time

import pytest

from beam_runner_runtime.clock import ProcessingClock

HOUR = 3_600_000


class Clocks:
    """The clocks of the machine: a wall clock that can be set, and a monotonic clock."""

    def __init__(self) -> None:
        self.wall = 1_700_000_000_000
        self.steady = 5_000

    def passes(self, milliseconds: int) -> None:
        self.wall += milliseconds
        self.steady += milliseconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    monkeypatch.setattr(time, "time_ns", lambda: made.wall * 1_000_000)
    monkeypatch.setattr(time, "monotonic_ns", lambda: made.steady * 1_000_000)
    return made


@pytest.mark.parametrize("step", [-HOUR, -1, 0, HOUR, 24 * HOUR])
def test_processing_clock_ignores_wall_clock_changes(clocks: Clocks, step: int) -> None:
    clock = ProcessingClock()
    begun = clock.now()
    assert begun == clocks.wall
    clocks.passes(10)
    clocks.wall += step
    clocks.passes(20)
    assert clock.now() == begun + 30


def test_processing_clock_continues_on_next_server(clocks: Clocks) -> None:
    seen = ProcessingClock().now()
    clocks.wall -= HOUR
    clock = ProcessingClock(at_least=seen)
    assert clock.now() == seen
    clocks.passes(7)
    assert clock.now() == seen + 7
    clocks.wall += 2 * HOUR
    assert ProcessingClock(at_least=seen).now() == seen + 7 + HOUR


def test_worker_processing_clock_follows_server_clock(clocks: Clocks) -> None:
    clock = ProcessingClock.create_synchronized_clock(123_456)
    clocks.wall -= HOUR
    clocks.passes(4)
    assert clock.now() == 123_460


@pytest.mark.parametrize("milliseconds", [0, 15, 900])
def test_worker_processing_clock_includes_transfer_time_of_order(
    clocks: Clocks, milliseconds: int
) -> None:
    clock = ProcessingClock()
    told = clock.now()
    clocks.passes(milliseconds)
    assert ProcessingClock.create_synchronized_clock(told).now() == clock.now()


@pytest.mark.parametrize("step", [-HOUR, 0, 900, HOUR])
def test_wall_clock_timestamps_are_converted(clocks: Clocks, step: int) -> None:
    clock = ProcessingClock()
    clocks.wall += step
    meant = clock.convert_wall_clock_time(clocks.wall + 60_000) - clock.now()
    assert meant == 60_000 + (step if abs(step) < 1000 else 0)
