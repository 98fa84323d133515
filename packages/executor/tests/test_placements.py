"""Tests of the contract between the driver and a placement (starter of worker processes): Spark, or
local processes of this machine.

The tests of each placement check that a stopped placement leaves no process, because a test process
has one Spark.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from beam_runner_runtime.channel.stand_by import EndStandBy
from beam_runner_runtime.processes.placement import ProcessPlacement
from beam_runner_server.placement_service import PlacementService
from placed_jobs import SECONDS, PlacedJob, PlacedJobs, served
from processes import is_alive
from waiting import wait_until_gone

from beam_spark_executor.spark.placement import SparkPlacement
from beam_spark_executor.spark.session import RunningSpark
from beam_spark_executor.spark.settings import SparkSettings

CORES = 2
MANY = 6


@pytest.fixture(scope="module", params=["plain", pytest.param("spark", marks=pytest.mark.spark)])
def placement(request: pytest.FixtureRequest) -> Iterator[PlacementService]:
    placement: PlacementService
    if request.param == "spark":
        # The placement uses the session of all tests, which has the same number of cores, and
        # leaves it running.
        request.getfixturevalue("spark")
        placement = SparkPlacement(RunningSpark(SparkSettings()))
    else:
        placement = ProcessPlacement(CORES)
    placement.check_requirements()
    placement.start()
    yield placement
    placement.stop()


@pytest.fixture(scope="module")
def jobs(placement: PlacementService) -> Iterator[dict[str, PlacedJob]]:
    with served(placement) as jobs:
        yield jobs


@pytest.fixture
def place(
    placement: PlacementService, jobs: dict[str, PlacedJob], tmp_path: Path
) -> Iterator[PlacedJobs]:
    place = PlacedJobs(placement, jobs, tmp_path)
    yield place
    place.end()


@pytest.mark.timeout(400)
def test_placement_reports_its_cores_and_slots(place: PlacedJobs) -> None:
    assert place.placement.is_alive
    assert place.placement.is_on_this_machine
    assert place.placement.cores == CORES
    # The standby task takes one of Spark's slots.
    assert place.placement.slots in (CORES * 6, CORES * 6 - 1)
    assert all((place.placement.name, place.placement.where, place.placement.loss_message))


@pytest.mark.timeout(400)
def test_placement_runs_lanes_of_job_in_parallel_and_reuses_processes(place: PlacedJobs) -> None:
    job = place.job("side-by-side")
    first, second = job.open(0), job.open(1)
    assert os.getpid() != first.hello.pid != second.hello.pid != os.getpid()
    job.close(0, first)
    again = job.open(2)
    assert again.hello.pid != second.hello.pid
    job.close(2, again)
    job.close(1, second)


@pytest.mark.timeout(400)
def test_placement_starts_concurrent_lanes_in_separate_processes(place: PlacedJobs) -> None:
    job = place.job("many")
    for lane in range(MANY):
        job.start(lane)
    links = dict(job.opened.get(timeout=SECONDS) for _ in range(MANY))
    assert len({link.hello.pid for link in links.values()}) == MANY
    for lane, link in links.items():
        job.close(lane, link)


@pytest.mark.timeout(400)
def test_placement_uses_separate_processes_for_each_job(place: PlacedJobs) -> None:
    one, other = place.job("one"), place.job("other")
    link = one.open(0)
    one.close(0, link)
    assert other.open(0).hello.pid != link.hello.pid


@pytest.mark.timeout(400)
def test_placement_retries_lane_with_lost_process(place: PlacedJobs) -> None:
    job = place.job("lost")
    lost = job.open(0)
    os.kill(lost.hello.pid, signal.SIGKILL)
    again = job.next_opened(0)
    assert again.hello.pid != lost.hello.pid
    assert job.ended.empty()
    job.close(0, again)


@pytest.mark.timeout(400)
def test_placement_reports_why_lane_failed_repeatedly(place: PlacedJobs) -> None:
    job = place.job("always-lost")
    job.start(0)
    for _ in range(4):
        os.kill(job.next_opened(0).hello.pid, signal.SIGKILL)
    number, error = job.ended.get(timeout=SECONDS)
    assert (number, bool(error)) == (0, True)
    assert job.opened.empty()


@pytest.mark.timeout(400)
def test_placement_cancels_lanes_of_one_job(place: PlacedJobs) -> None:
    job, other = place.job("cancelled"), place.job("goes-on")
    links, stays = [job.open(0), job.open(1)], other.open(0)
    job.placed.cancel()
    assert {job.ended.get(timeout=SECONDS)[0] for _ in range(2)} == {0, 1}
    for link in links:
        wait_until_gone(link.hello.pid)
    assert is_alive(stays.hello.pid)
    assert job.opened.empty()
    other.close(0, stays)


def test_standby_task_with_unknown_number_is_dismissed(place: PlacedJobs) -> None:
    assert place.placement.get_standby_order(10**6) == EndStandBy()
