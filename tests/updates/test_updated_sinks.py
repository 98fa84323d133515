"""Tests that updates of a stream lose no element of its sink, which fuses with the step before, and write none twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_runner_model.updates import FindingReason
from beam_runner_server.job_server import RunnerServer
from jobs import Job, Pipelines
from sunk_streams import KEYS, SunkStream, build, create_sink
from update_servers import create_pipelines, start_server
from waiting import wait_until

pytestmark = pytest.mark.timeout(300)
NAME = "rows"
RENAMED = '--transform_name_mapping={"Count": "Totals"}'
IMMEDIATELY = "--beam_spark_update_quiet=0s"
_ROWS = 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunnerServer]:
    """Yields a server on plain processes with a state folder."""
    with start_server(tmp_path_factory.mktemp("server") / "state") as served:
        yield served


def submit(pipelines: Pipelines, sink: Any, *flags: str, **edit: Any) -> Job:
    pipeline = pipelines.new("--streaming", f"--job_name={NAME}", *flags)
    build(pipeline, sink, **edit)
    return pipelines.job(pipeline)


def update(pipelines: Pipelines, stream: SunkStream, sink: Any, *flags: str, **edit: Any) -> Job:
    """Waits for more rows, and replaces the running job."""
    count = len(stream.read())
    wait_until(lambda: len(stream.read()) > count + _ROWS, 60, "more rows are written")
    job = submit(pipelines, sink, "--update", *flags, **edit)
    job.wait_for(JobState.RUNNING)
    return job


def end(stream: SunkStream, job: Job) -> None:
    """Drains the stream, and checks that the database has each number once, with the right position."""
    with JobClient(job.address) as client:
        client.drain_job(job.job_id)
    assert job.wait() is JobState.DRAINED
    rows = sorted(stream.read())
    assert rows == [(number, number // KEYS) for number in range(len(rows))]


@pytest.mark.parametrize(
    "environment", ["embedded", pytest.param("LOOPBACK", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("every", [None, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["elements", "files"])
def test_sink_of_updated_stream_writes_each_element_once(
    server: RunnerServer, tmp_path: Path, kind: str, every: int | None, environment: str
) -> None:
    stream = SunkStream.create(tmp_path)
    pipelines = create_pipelines(server, environment)
    sink = create_sink(stream, kind)
    submit(pipelines, sink, every=every).wait_for(JobState.RUNNING)
    update(pipelines, stream, sink, inserted=1, every=every)
    update(pipelines, stream, sink, RENAMED, IMMEDIATELY, name="Totals", every=every)
    last = update(pipelines, stream, sink, name="Totals", inserted=2, every=every)
    end(stream, last)
    # All jobs are one run, whose commits have no gap.
    marks = stream.read("SELECT DISTINCT run FROM beam_exactly_once")
    assert len(marks) == 1


def test_update_to_more_shards_of_a_sink_writes_each_element_once(
    server: RunnerServer, tmp_path: Path
) -> None:
    stream = SunkStream.create(tmp_path)
    pipelines = create_pipelines(server)
    first = create_sink(stream, "elements", 2)
    submit(pipelines, first).wait_for(JobState.RUNNING)
    end(stream, update(pipelines, stream, create_sink(stream, "elements", 5), IMMEDIATELY))
    shards = stream.read("SELECT shard FROM beam_exactly_once ORDER BY shard")
    assert shards == [(number,) for number in range(5)]


def test_update_to_a_sink_with_writers_is_refused_and_leaves_the_stream_unchanged(
    server: RunnerServer, tmp_path: Path
) -> None:
    """The batches of a sink with writers have a side input, whose collection has ended."""
    stream = SunkStream.create(tmp_path)
    pipelines = create_pipelines(server)
    old = submit(pipelines, create_sink(stream, "elements"))
    wait_until(lambda: len(stream.read()) > _ROWS, 60, "rows are written")
    job = submit(pipelines, create_sink(stream, "files"), "--update")
    assert job.wait() is JobState.FAILED
    with JobClient(server.address) as client:
        refused = client.get_succession(job.job_id).report.refused_findings
    assert FindingReason.INPUT_ENDED in {finding.reason for finding in refused}
    assert old.state() is JobState.RUNNING
    end(stream, old)
