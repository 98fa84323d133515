"""Tests of the load of a machine, measured by the system's data about this process's threads."""

from __future__ import annotations

import pytest
from beam_runner_worker.core_times import CoreTime
from clocks import clock_of

from beam_runner_runtime import cpu_contention
from beam_runner_runtime.cpu_contention import MOST, CpuSlowdown


def test_bundle_duration_limit_grows_with_cpu_slowdown(monkeypatch: pytest.MonkeyPatch) -> None:
    slowness = CpuSlowdown()
    for factor, least, lasts in (
        (1.0, 0.1, 0.1),
        (4.0, 0.1, 0.2),
        (4.0, 0.5, 0.5),
        (20.0, 0.5, 1.0),
    ):
        monkeypatch.setattr(slowness, "measure_factor", lambda factor=factor: factor)
        assert slowness.compute_bundle_seconds(least) == pytest.approx(lasts)


@pytest.mark.parametrize(
    ("ran", "waited", "factor"),
    [(1.0, 0.0, 1.0), (0.5, 1.0, 3.0), (0.1, 90.0, MOST), (0.001, 0.9, 1.0)],
)
def test_cpu_slowdown_factor_follows_recent_core_times(
    monkeypatch: pytest.MonkeyPatch, ran: float, waited: float, factor: float
) -> None:
    clock = clock_of(cpu_contention, monkeypatch)
    times = {1: CoreTime(5.0, 5.0), 2: CoreTime(1.0, 1.0)}
    monkeypatch.setattr(cpu_contention, "read_thread_times", lambda: dict(times))
    slowness = CpuSlowdown()
    times[1] = CoreTime(5.0 + ran, 5.0 + waited)
    del times[2]
    times[3] = CoreTime(70.0, 70.0)
    assert slowness.measure_factor() == 1.0, "it has just looked"
    clock.now += 2
    assert slowness.measure_factor() == pytest.approx(factor)
    clock.now += 2
    assert slowness.measure_factor() == pytest.approx(factor), "no thread has run since"
