"""Tests of kills in CI: workers at every point of the commit protocol, a server in a commit, and Spark.

All tests share one server. Longer sessions kill every process at every point.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from chaos import strike
from crash_points import Points, check, submit, with_points
from jobs import Pipelines
from lives import Lives
from victims import Victim, bounded, unbounded
from waiting import wait_until

IN_A_WORKER = (
    ("before bundle", "before files", "after files"),
    ("before state", "after state", "after bundle"),
    ("before reply", "after reply"),
)
"""Crash points of workers. A bundle has four attempts, so a job has three crash points at most."""
IN_A_LOOP = ("before loop state", "after loop state", "after loop reply")
HIT_SECONDS = 60.0
COUNT = 400
NUMBERS_WHILE_A_SERVER_DIES = 1500

PipelinesOf = Callable[[Lives, str], Pipelines]


@pytest.fixture(scope="module")
def module_points(tmp_path_factory: pytest.TempPathFactory) -> Points:
    return Points(tmp_path_factory.mktemp("points"))


@pytest.fixture(scope="module")
def running(module_points: Points, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    """Yields a server whose processes check the crash points."""
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as temporary:
        state = tmp_path_factory.mktemp("server") / "state"
        with with_points(Path(temporary), state, module_points) as lives:
            yield lives


@pytest.mark.parametrize("victim", [bounded, unbounded], ids=lambda victim: victim.__name__)
def test_worker_killed_at_every_crash_point_loses_no_element(
    running: Lives,
    module_points: Points,
    tmp_path: Path,
    pipelines_of: PipelinesOf,
    victim: Victim,
) -> None:
    for some in IN_A_WORKER:
        # A batch has no state.
        passed = [point for point in some if victim is unbounded or "state" not in point]
        for point in passed:
            module_points.set(point)
        job = submit(pipelines_of(running, "embedded"), victim, COUNT, tmp_path / "never")
        check(job, COUNT)
        assert [point for point in passed if not module_points.is_hit(point)] == []


def test_repeatedly_killed_workers_fail_the_job(
    running: Lives, module_points: Points, tmp_path: Path, pipelines_of: PipelinesOf
) -> None:
    for point in IN_A_LOOP:
        module_points.set(point)
        job = submit(pipelines_of(running, "embedded"), quick, 30, tmp_path / "never")
        check(job, 30)
        assert module_points.is_hit(point), point


def test_stream_is_exact_if_server_is_killed_in_a_commit_while_spark_survives(
    running: Lives, module_points: Points, tmp_path: Path, pipelines_of: PipelinesOf
) -> None:
    count = NUMBERS_WHILE_A_SERVER_DIES
    job = submit(pipelines_of(running, "embedded"), unbounded, count, tmp_path / "never")
    wait_until(lambda: job.counter("second"), HIT_SECONDS, "something is committed")
    module_points.set("in transaction")
    wait_until(lambda: module_points.is_hit("in transaction"), HIT_SECONDS, "a commit")
    assert running.wait_until_gone() == -9
    running.go_on()
    assert job.counter("arrived") == 0, "it has ended before Spark is killed"
    strike(running, "java", 0)
    check(job, count)


def quick(pipeline: beam.Pipeline, count: int, stop: Path) -> None:
    """Builds a stream that is small enough for the scheduler loop of one worker process."""
    unbounded(pipeline, count, stop, seconds=0.0)
