"""Tests that no ended thread of a worker or a server leaves a job standing.

`test_threads_start_in_one_place.py` checks that no other function starts threads.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from beam_runner_model.jobs import JobState
from crash_points import Points, check, submit, with_points
from jobs import Pipelines
from lives import Lives
from victims import ENDLESS, unbounded
from waiting import wait_until, wait_until_gone

OF_A_WORKER = ("channel", "heart", "loop", "progress")
"""Threads that other threads of a worker wait for. Each runs Python code at least every second."""

PipelinesOf = Callable[[Lives, str], Pipelines]


@pytest.fixture(scope="module")
def module_points(tmp_path_factory: pytest.TempPathFactory) -> Points:
    return Points(tmp_path_factory.mktemp("points"))


@pytest.fixture(scope="module")
def running(module_points: Points, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    """Yields a server whose processes end the threads that the test names."""
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as temporary:
        state = tmp_path_factory.mktemp("server") / "state"
        with with_points(Path(temporary), state, module_points, "--without-spark") as lives:
            yield lives


@pytest.mark.parametrize("name", OF_A_WORKER)
def test_stream_with_an_ended_thread_of_its_worker_continues_in_another_process(
    running: Lives, module_points: Points, tmp_path: Path, pipelines_of: PipelinesOf, name: str
) -> None:
    stop = tmp_path / "stop"
    job = submit(pipelines_of(running, "embedded"), unbounded, ENDLESS, stop)
    wait_until(lambda: job.counter("second"), what="something is committed")
    module_points.set(f"end {name}")
    wait_until(lambda: module_points.is_hit(f"end {name}"), what="the thread gets an error")
    wait_until_gone(module_points.pid(f"end {name}"))
    before = job.counter("second")
    wait_until(lambda: job.counter("second") > before, what="the stream continues")
    stop.touch()
    check(job)


def test_job_with_an_ended_thread_in_the_server_fails_with_the_reason(
    running: Lives, module_points: Points, tmp_path: Path, pipelines_of: PipelinesOf
) -> None:
    job = submit(pipelines_of(running, "embedded"), unbounded, ENDLESS, tmp_path / "never")
    wait_until(lambda: job.counter("second"), what="something is committed")
    module_points.set("end job")
    assert job.wait() is JobState.FAILED
    assert "the server failed: EndedByTest" in [one.text for one in job.messages()][-1]


def test_server_with_an_ended_thread_for_its_workers_stops_and_the_next_server_continues(
    running: Lives, module_points: Points, tmp_path: Path, pipelines_of: PipelinesOf
) -> None:
    stop = tmp_path / "stop"
    job = submit(pipelines_of(running, "embedded"), unbounded, ENDLESS, stop)
    wait_until(lambda: job.counter("second"), what="something is committed")
    module_points.set("end workers")
    wait_until(lambda: module_points.is_hit("end workers"), what="the thread gets an error")
    # The thread waits in C code until the fork server reports something.
    assert running.kill("worker")
    assert running.wait_until_gone() == 1
    running.go_on()
    stop.touch()
    check(job)
