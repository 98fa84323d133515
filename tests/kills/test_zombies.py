"""Tests that the server ignores writes of attempts that continue after the server has abandoned them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from crash_points import Points, check, submit, with_points
from jobs import Pipelines
from lives import Lives
from processes import process_exists
from victims import unbounded
from waiting import wait_until

COUNT = 4000
LOST_SECONDS = 60.0

PipelinesOf = Callable[[Lives, str], Pipelines]


def losses(lives: Lives) -> int:
    """Returns the number of bundles that the server has abandoned."""
    return sum(" was lost" in line for line in lives.server.log)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", ["before files", "before state", "before reply"])
def test_disconnected_attempts_that_continue_to_write_have_no_effect(
    temporary: Path, tmp_path: Path, points: Points, pipelines_of: PipelinesOf, point: str
) -> None:
    """Three consecutive attempts lose their connection without notice, and write on for seconds."""
    with with_points(temporary, tmp_path / "state", points) as running:
        job = submit(pipelines_of(running, "embedded"), unbounded, COUNT, tmp_path / "never")
        for number in range(1, 4):
            points.set(point, "cut")
            wait_until(lambda: points.is_hit(point), LOST_SECONDS, "one is cut off")
            wait_until(lambda n=number: losses(running) >= n, LOST_SECONDS, "it is given up")
            points.clear(point)
        check(job, COUNT)
        running.server.wait_until_idle()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", ["before files", "before reply"])
def test_suspended_process_that_resumes_after_a_retry_has_no_effect(
    temporary: Path, tmp_path: Path, points: Points, pipelines_of: PipelinesOf, point: str
) -> None:
    """The process is silent until its bundle is retried; then it writes, and responds."""
    with with_points(temporary, tmp_path / "state", points) as running:
        job = submit(pipelines_of(running, "embedded"), unbounded, COUNT, tmp_path / "never")
        points.set(point, "stop")
        wait_until(lambda: points.is_hit(point), LOST_SECONDS, "one stops")
        zombie = points.pid(point)
        wait_until(lambda: losses(running) >= 1, LOST_SECONDS, "it is given up")
        progress = job.counter("first")
        wait_until(
            lambda: job.counter("first") > progress, LOST_SECONDS, "the job goes on without it"
        )
        os.kill(zombie, signal.SIGCONT)
        check(job, COUNT)
        wait_until(lambda: not process_exists(zombie), 60, "the zombie ends")
        running.server.wait_until_idle()
