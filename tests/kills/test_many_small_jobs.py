"""Tests that a server needs no more memory or time per job after a thousand jobs, and after concurrent jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import apache_beam as beam
import pytest
from beam_runner_model.jobs import JobState
from gauges import Spent, look
from jobs import Job, Pipelines
from lives import Lives, lives

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * 3600)]
HUNDRED = 100
MORE_MEGABYTES = 20.0
SLOWER = 1.25
AT_ONCE = 6
QUIET_SECONDS = 60
CPU_SECONDS = 3.0
# Beam's client lists all installed packages for each job, which takes longer than the job.
QUICK = "--experiments=disable_logging_submission_environment"

PipelinesOf = Callable[[Lives, str], Pipelines]


def small(pipelines: Pipelines) -> Job:
    """Submits a job with a shuffle."""
    pipeline = pipelines.new(QUICK)
    pairs = pipeline | beam.Create([(n % 3, n) for n in range(12)])
    _ = pairs | beam.CombinePerKey(sum) | beam.combiners.ToList()
    return pipelines.job(pipeline)


def test_sequential_small_jobs_leave_nothing_behind(
    temporary: Path, tmp_path: Path, pipelines_of: PipelinesOf, request: pytest.FixtureRequest
) -> None:
    count = request.config.getoption("--jobs")
    state = tmp_path / "state"
    with lives(temporary, state) as running:
        pipelines = pipelines_of(running, "embedded")
        megabytes, seconds, cpu = [], [], []
        for _ in range(count // HUNDRED):
            taken = []
            with Spent(running) as spent:
                for _ in range(HUNDRED):
                    started = time.monotonic()
                    assert small(pipelines).wait(60) is JobState.DONE
                    taken.append(time.monotonic() - started)
            sample = look(running, state)
            megabytes.append(sample.megabytes["server"])
            seconds.append(median(taken))
            cpu.append(spent.seconds)
            told = f"{seconds[-1]:.3f} s a job, {cpu[-1]:.1f} s of CPU, {sample.file_megabytes} MB"
            print(f"HUNDRED {told} of files, {sample.megabytes} MB", flush=True)
    assert megabytes[-1] <= megabytes[1] + MORE_MEGABYTES
    assert cpu[-1] <= cpu[1] * SLOWER


def test_concurrent_small_jobs_after_an_idle_period_leave_nothing_behind(
    temporary: Path, tmp_path: Path, pipelines_of: PipelinesOf
) -> None:
    with lives(temporary, tmp_path / "state") as running:
        pipelines = pipelines_of(running, "embedded")
        used = {}
        for number in (1, AT_ONCE):
            time.sleep(QUIET_SECONDS)
            with Spent(running) as spent, ThreadPoolExecutor(number) as threads:
                started = time.monotonic()
                jobs = [threads.submit(small, pipelines) for _ in range(number)]
                assert {job.result().wait(60) for job in jobs} == {JobState.DONE}
            used[number] = spent.seconds
            wall = time.monotonic() - started
            print(f"AT ONCE {number}: {used[number]:.2f} s of CPU, {wall:.2f} s", flush=True)
    assert used[AT_ONCE] <= CPU_SECONDS
