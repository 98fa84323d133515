"""Tests of servers that are killed at each point of the commit protocol: no element is lost or duplicated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from crash_points import Points, check, submit, with_points
from jobs import Pipelines
from lives import Lives
from victims import bounded, unbounded
from waiting import wait_until

HIT_SECONDS = 60.0
IN_A_STREAM = (
    "before append",
    "in transaction",
    "after append",
    "after apply",
    "before files go",
    "before commands",
    "after commands",
    "before snapshot",
    "after snapshot",
)
"""Passed by a server again and again while a stream runs."""
AT_THE_START = ("in recovery", "before sweep", "after sweep", "before begin", "after begin")
"""Crash points of a server that resumes a job."""
AT_THE_END = ("before end", "after end", "before delete", "after delete")

PipelinesOf = Callable[[Lives, str], Pipelines]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_stream_with_server_killed_at_every_crash_point_gives_exact_results(
    temporary: Path, tmp_path: Path, points: Points, pipelines_of: PipelinesOf
) -> None:
    """Each server process of one stream is killed at another point. The last process finishes the stream."""
    stop = tmp_path / "stop"
    with with_points(temporary, tmp_path / "state", points) as running:
        job = submit(pipelines_of(running, "embedded"), unbounded, 10**6, stop)
        for point in IN_A_STREAM:
            points.set(point)
            wait_until(lambda point=point: points.is_hit(point), HIT_SECONDS, point)
            assert running.wait_until_gone() == -9, point
            running.go_on()
        running.kill("server")
        running.wait_until_gone()
        for point in AT_THE_START:
            points.set(point)
            running.go_on_to_die()
            assert running.wait_until_gone() == -9, point
            assert points.is_hit(point)
        running.go_on()
        stop.touch()
        check(job)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_job_with_server_killed_at_its_end_is_resumed(
    temporary: Path, tmp_path: Path, points: Points, pipelines_of: PipelinesOf
) -> None:
    """A job also resumes before its start, once `Run` has returned or the job is in the list."""
    with with_points(temporary, tmp_path / "state", points) as running:
        for point in AT_THE_END:
            points.set(point)
            job = submit(pipelines_of(running, "embedded"), bounded, 200, tmp_path)
            wait_until(lambda point=point: points.is_hit(point), HIT_SECONDS, point)
            assert running.wait_until_gone() == -9, point
            running.go_on()
            check(job, 200)
