"""Tests that a drained job ends in state DRAINED and counts each element once if any process is killed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from chaos import strike
from crash_points import check, submit
from jobs import Pipelines
from lives import Lives, lives
from rounds import ROUND_SECONDS
from victims import ENDLESS, unbounded
from waiting import wait_until

PAUSE_SECONDS = 0.6
"""Maximum pause between the drain and the first kill, and between kills, seconds; the first pause can be zero."""
KINDS = {
    "embedded": ("worker", "server", "java"),
    "PROCESS": ("harness", "worker", "server"),
}

PipelinesOf = Callable[[Lives, str], Pipelines]


@pytest.mark.slow
@pytest.mark.timeout(ROUND_SECONDS)
@pytest.mark.parametrize("environment", KINDS)
def test_drain_with_killed_processes_ends_in_state_drained(
    temporary: Path, tmp_path: Path, pipelines_of: PipelinesOf, environment: str, seed: int
) -> None:
    chance = random.Random(seed)
    kinds = chance.sample(KINDS[environment], len(KINDS[environment]))
    with lives(temporary, tmp_path / "state") as running:
        job = submit(pipelines_of(running, environment), unbounded, ENDLESS, tmp_path / "never")
        wait_until(lambda: job.counter("second"), 60, "something is committed")
        with JobClient(running.address) as client:
            assert client.drain_job(job.job_id) is JobState.DRAINING
        for kind in kinds:
            time.sleep(chance.choice((0.0, chance.uniform(0.0, PAUSE_SECONDS))))
            strike(running, kind, chance.randrange(100))
        print(f"KILLS seed {seed} {environment} {kinds}: {dict(running.kills)}", flush=True)
        check(job, state=JobState.DRAINED)
        assert job.counter("arrived") > 0
