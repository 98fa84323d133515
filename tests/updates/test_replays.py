"""Updates that correct a step, and replays of the elements that the step had failed for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_runner_model.replays import ReplayProblem, ReplayReport
from beam_runner_server.job_server import RunnerServer
from failing_streams import COUNT, NumberSource, check_ordinals, count_by_key
from jobs import Job, pickle_by_value
from update_servers import create_pipelines, start_server
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)
POISONED = frozenset({3, 77, 78, 200})
END = COUNT - 10
"""Number before which the source waits, so that the stream doesn't end."""


def fail(number: int) -> int:
    if number in POISONED:
        raise ValueError(f"poison {number}")
    return number


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunnerServer]:
    """Yields a server on plain processes with a state folder."""
    with start_server(tmp_path_factory.mktemp("server") / "state") as served:
        yield served


def submit(
    server: RunnerServer, folder: Path, step: beam.PTransform, *flags: str, text: bool = False
) -> Job:
    """Submits a version of a stream whose source waits for a file before its last numbers.

    Args:
        server: the server.
        folder: folder of the quarantine and of the file.
        step: step that can fail.
        flags: options of the pipeline.
        text: whether the step reads texts instead of numbers.
    """
    pipelines = create_pipelines(server)
    pipeline = pipelines.new(
        "--streaming",
        f"--job_name={folder.name}",
        f"--beam_spark_quarantine={folder}/quarantine",
        "--beam_spark_quarantine_attempts=1",
        *flags,
    )
    numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource(END, folder / "gate"))
    if text:
        numbers |= "Text" >> beam.Map(str).with_output_types(str)
    numbers |= "Deal" >> beam.Reshuffle()
    counted = count_by_key(numbers | step | "Number" >> beam.Map(int))
    assert_that(counted, check_ordinals)
    return pipelines.job(pipeline)


def fill_quarantine(server: RunnerServer, folder: Path) -> Job:
    """Starts a stream, and waits until the poisoned elements of the stream are in quarantine."""
    job = submit(server, folder, "Parse" >> beam.Map(fail))
    files = folder / "quarantine"

    def is_full() -> bool:
        rows = sum(pq.read_metadata(file).num_rows for file in files.rglob("*.parquet"))
        return rows == len(POISONED)

    wait_until(is_full, 60, "poisoned elements are in quarantine")
    return job


def replay(job: Job, folder: Path) -> ReplayReport:
    with JobClient(job.address) as client:
        return client.replay_quarantine(job.job_id, str(folder / "quarantine"))


def test_corrected_stream_replays_the_elements_of_its_predecessor(
    server: RunnerServer, tmp_path: Path
) -> None:
    old = fill_quarantine(server, tmp_path)
    new = submit(
        server,
        tmp_path,
        "Read" >> beam.Map(lambda number: number),
        "--update",
        '--transform_name_mapping={"Parse": "Read"}',
    )
    new.wait_for(JobState.RUNNING)
    assert old.state() is JobState.UPDATED
    found = replay(new, tmp_path)
    assert (found.replayed, found.earlier, found.problems) == (len(POISONED), 0, ())
    assert replay(new, tmp_path) == ReplayReport(earlier=len(POISONED))
    (tmp_path / "gate").touch()
    assert new.wait() is JobState.DONE, [message.text for message in new.messages()][-3:]


@pytest.mark.slow
def test_changed_coder_and_removed_step_are_refused(server: RunnerServer, tmp_path: Path) -> None:
    fill_quarantine(server, tmp_path)
    job = submit(server, tmp_path, "Parse" >> beam.Map(fail), "--update", text=True)
    job.wait_for(JobState.RUNNING)
    (problem,) = replay(job, tmp_path).problems
    assert (problem.problem, problem.step) == (ReplayProblem.CODER_CHANGED, "Parse")
    assert problem.count == len(POISONED)
    job.cancel()
    assert job.wait() is JobState.CANCELLED


pickle_by_value(__name__)
