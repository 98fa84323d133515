"""Tests of the measured core demand of another process."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from beam_runner_worker.fnapi import demand as demand_module
from beam_runner_worker.fnapi.demand import CpuDemand

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


@pytest.mark.parametrize(
    ("program", "least", "most"),
    [("while True: pass", 0.5, 1.5), ("import time; time.sleep(60)", 0.0, 0.1)],
    ids=["busy", "asleep"],
)
def test_cpu_demand_of_process_is_measured(
    program: str, least: float, most: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        demand_module, "_MOST_SECONDS", 60.0
    )  # sleeps take longer on a busy machine
    child = subprocess.Popen([sys.executable, "-S", "-c", program])
    try:
        time.sleep(1)
        demand = CpuDemand(child.pid)
        time.sleep(0.5)
        share = demand.measure_requested_cores()
        assert share is not None
        assert least <= share <= most
        monkeypatch.setattr(demand_module, "_LEAST_SECONDS", 60.0)
        assert demand.measure_requested_cores() is None  # the interval is too short
    finally:
        child.kill()
        child.wait(10)
    assert demand.measure_requested_cores() is None
