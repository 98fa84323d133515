"""Tests of servers that are killed while they write a quarantine file, or around a replay: no element is
lost or doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.jobs import JobState
from beam_runner_model.replays import ReplayReport
from crash_points import Points, with_points
from failing_streams import KEYS, CountPerKey, NumberSource
from jobs import Job, Pipelines, pickle_by_value
from lives import Lives
from waiting import wait_until

COUNT = 1200
POISONED = frozenset(range(5, COUNT, 150))
POINTS = (
    "before quarantine",
    "after quarantine",
    "before quarantine file",
    "after quarantine file",
)
REPLAY_POINTS = ("before replay", "after replay")


def fail(number: int, corrected: Path) -> int:
    if number in POISONED and not corrected.exists():
        raise ValueError(f"poison {number}")
    return number


def submit(pipelines: Pipelines, folder: Path, gate: Path, *, is_corrected: bool = False) -> Job:
    """Submits a stream whose source waits for a file before its last numbers.

    If `is_corrected`, the failing step accepts all numbers as soon as a file exists.
    """
    corrected = gate.with_name("corrected")
    expected = [n for n in range(COUNT) if is_corrected or n not in POISONED]
    pipeline = pipelines.new(
        "--streaming",
        f"--beam_spark_quarantine={folder}",
        "--beam_spark_quarantine_attempts=2",
    )
    counted = (
        pipeline
        | beam.Create([COUNT])
        | beam.ParDo(NumberSource(COUNT - 10, gate))
        | "Fails" >> beam.Map(fail, corrected)
        | beam.Map(lambda n: (n % KEYS, n)).with_output_types(tuple[int, int])
        | "Count" >> beam.ParDo(CountPerKey())
        | beam.Map(lambda value: value[2])
    )
    assert_that(counted, equal_to(expected))
    return pipelines.job(pipeline)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_server_killed_while_it_quarantines_elements_keeps_each_element_once(
    temporary: Path,
    tmp_path: Path,
    points: Points,
    pipelines_of: Callable[[Lives, str], Pipelines],
) -> None:
    folder, gate = tmp_path / "quarantine", tmp_path / "gate"
    with with_points(temporary, tmp_path / "state", points, "--without-spark") as running:
        for point in POINTS:
            points.set(point)
        job = submit(pipelines_of(running, "embedded"), folder, gate)
        for _ in POINTS[1:]:
            assert running.wait_until_gone() == -9
            running.go_on_to_die()
        assert running.wait_until_gone() == -9
        running.go_on()
        assert all(map(points.is_hit, POINTS))
        gate.touch()
        assert job.wait(180) is JobState.DONE, [m.text for m in job.messages()][-3:]
        assert sorted(read_numbers(folder)) == sorted(POISONED)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_server_killed_during_a_replay_processes_each_element_once(
    temporary: Path,
    tmp_path: Path,
    points: Points,
    pipelines_of: Callable[[Lives, str], Pipelines],
) -> None:
    folder, gate = tmp_path / "quarantine", tmp_path / "gate"
    with with_points(temporary, tmp_path / "state", points, "--without-spark") as running:
        job = submit(pipelines_of(running, "embedded"), folder, gate, is_corrected=True)
        wait_until(lambda: len(list(read_numbers(folder))) == len(POISONED), 60, "quarantine")
        gate.with_name("corrected").touch()
        for point in REPLAY_POINTS:
            points.set(point)
            with pytest.raises(JobApiError):
                replay(job, folder)
            assert running.wait_until_gone() == -9
            assert points.is_hit(point)
            running.go_on()
        assert replay(job, folder) == ReplayReport(earlier=len(POISONED))
        gate.touch()
        assert job.wait(180) is JobState.DONE, [m.text for m in job.messages()][-3:]


def replay(job: Job, folder: Path) -> ReplayReport:
    with JobClient(job.address) as client:
        return client.replay_quarantine(job.job_id, str(folder))


def read_numbers(folder: Path) -> Iterator[int]:
    """Yields the number in each quarantined (failed) element."""
    for file in folder.rglob("*.parquet"):
        for row in pq.read_table(file).to_pylist():
            assert row["error"] == f"ValueError: poison {row['timestamp_ms'] // 1000}"
            yield row["timestamp_ms"] // 1000


pickle_by_value(__name__)
