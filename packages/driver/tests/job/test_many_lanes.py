"""Streams on many simulated lanes: every lane works, failed bundles run again, and a drain ends the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from beam_runner_model.jobs import JobState
from servers import SECONDS, Server
from simulated_workers import SimulatedPlacement, WorkerClock, make_stream_plan
from waiting import wait_until

LANES = 100
New = Callable[..., Server]


@pytest.fixture
def clock() -> Iterator[WorkerClock]:
    clock = WorkerClock()
    clock.start()
    yield clock
    clock.stop()


@pytest.mark.parametrize("failures", [0.0, 0.2])
def test_stream_on_many_lanes_uses_all_lanes_and_drains(
    new: New, clock: WorkerClock, failures: float
) -> None:
    placement = SimulatedPlacement(clock, LANES, 0.02, failures)
    limits = {"parallelism": LANES, "bundles_per_stage": LANES, "outside_attempts": None}
    server = new(
        cores=LANES, most_lanes=LANES, plan=make_stream_plan(), limits=limits, placement=placement
    )
    placement.job = server.job
    server.start()
    wait_until(lambda: placement.bundles > 20 * LANES and len(placement.lanes) == LANES)
    server.job.drain()
    assert server.job.wait_for_end(SECONDS)
    assert server.reporter.states[-1][0] is JobState.DRAINED
    assert (placement.failed_bundles > 0) == (failures > 0)
