"""Tests of kills of the server at each step of an update: the next server finishes the update exactly once."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from crash_points import Points, with_points
from edited import Edit
from jobs import Pipelines
from lives import Lives
from update_points import POINTS
from update_servers import roll_back
from updated import RUNNING_SECONDS, UpdatedStream, find_latest_job, wait_for_state
from waiting import wait_until

pytestmark = pytest.mark.timeout(600)
SECONDS_PER_KILL = 8
"""Duration of the stream for each kill, so that numbers are due during most updates."""


def replace_with_kill(
    running: Lives, points: Points, point: str, replace: Callable[[], object]
) -> None:
    """Replaces the running job, kills the server at a point, and waits until the next server runs the new job."""
    with JobClient(running.address) as client:
        known = [job.job_id for job in client.list_jobs()]
        last = find_latest_job(client, known[:-1])
    points.set(point)
    with contextlib.suppress(Exception):  # The server can be killed during the calls of the client.
        replace()
    wait_until(lambda: points.is_hit(point), RUNNING_SECONDS, f"the server is killed {point}")
    running.wait_until_gone()
    running.go_on()
    with JobClient(running.address) as client:
        new = find_latest_job(client, known)
    assert new
    wait_for_state(running.address, new, JobState.RUNNING, RUNNING_SECONDS)
    wait_for_state(running.address, last, JobState.UPDATED, RUNNING_SECONDS)


def update_with_kills(
    temporary: Path,
    tmp_path: Path,
    points: Points,
    chosen: tuple[str, ...],
) -> None:
    with with_points(temporary, tmp_path / "state", points, "--without-spark=2") as running:
        pipelines = Pipelines(running.address, "embedded", [])
        updated = UpdatedStream.begin(pipelines, tmp_path, 4 + SECONDS_PER_KILL * len(chosen))
        for number, point in enumerate(chosen):
            edit = Edit(inserted=number % 2, is_shuffled=number % 3 != 2)
            replace_with_kill(running, points, point, partial(updated.submit, edit, "--update"))
        check_results(running, updated)


def check_results(running: Lives, updated: UpdatedStream) -> None:
    """Waits for the end of the last job, and checks that each number was counted once."""
    updated.release_end()
    with JobClient(running.address) as client:
        (last,) = (job for job in client.list_jobs() if not job.state.is_terminal)
    wait_for_state(running.address, last.job_id, JobState.DONE, 4 * RUNNING_SECONDS)
    results = updated.stream.results
    assert updated.stream.count_logged_results() == results
    # The counters of a job are lost if the server is killed after the job was replaced.
    counted = updated.count_results()
    assert all(counted[what] <= count for what, count in results.items()), counted


def test_update_interrupted_by_a_killed_server_is_finished_by_the_next_server(
    temporary: Path, tmp_path: Path, points: Points
) -> None:
    update_with_kills(temporary, tmp_path, points, ("after hold", "after succession"))


@pytest.mark.slow
def test_updates_with_a_server_killed_at_each_crash_point_lose_no_number(
    temporary: Path, tmp_path: Path, points: Points, seed: int
) -> None:
    chosen = list(POINTS)
    random.Random(seed).shuffle(chosen)
    update_with_kills(temporary, tmp_path, points, tuple(chosen))


@pytest.mark.slow
@pytest.mark.parametrize("part", [0, 1, 2])
def test_rollbacks_with_a_server_killed_at_each_crash_point_lose_no_number(
    temporary: Path, tmp_path: Path, points: Points, part: int
) -> None:
    chosen = POINTS[part::3]
    with with_points(temporary, tmp_path / "state", points, "--without-spark=2") as running:
        pipelines = Pipelines(running.address, "embedded", [])
        seconds = 4 + 2 * SECONDS_PER_KILL * len(chosen)
        updated = UpdatedStream.begin(pipelines, tmp_path, seconds)
        for point in chosen:
            updated.update(Edit(inserted=1), "--update")
            replace_with_kill(running, points, point, partial(roll_back, running.address))
        check_results(running, updated)
