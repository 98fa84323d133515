"""Tests of concurrent jobs: each job makes progress and ends, and leaves nothing behind on the server."""

from __future__ import annotations

import time
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from job_server import JobServerProcess
from jobs import Job, Pipelines
from waiting import wait_until

JOBS = 10
FAILING, CANCELLED = 3, 6


def work(pipeline: beam.Pipeline, number: int) -> None:
    counted = (
        pipeline
        | beam.Create(range(100))
        | beam.Reshuffle()
        | beam.Map(lambda n: (n % 5, n * number))
        | beam.CombinePerKey(sum)
    )
    assert_that(counted, equal_to([(key, sum(range(key, 100, 5)) * number) for key in range(5)]))


def fail(pipeline: beam.Pipeline) -> None:
    pipeline | beam.Create([0]) | "Divide" >> beam.Map(lambda n: 1 / n)


def hang(pipeline: beam.Pipeline, begun: Path) -> None:
    def wait(_: int) -> None:
        begun.touch()
        time.sleep(300)

    pipeline | beam.Create([0]) | "Wait" >> beam.Map(wait)


@pytest.mark.timeout(400)
def test_ten_concurrent_jobs_give_exact_results(
    embedded: Pipelines, server: JobServerProcess, tmp_path: Path
) -> None:
    server.wait_until_idle()
    jobs: list[Job] = []
    for number in range(JOBS):
        pipeline = embedded.new()
        if number == FAILING:
            fail(pipeline)
        elif number == CANCELLED:
            hang(pipeline, tmp_path / "begun")
        else:
            work(pipeline, number)
        jobs.append(embedded.job(pipeline))
    wait_until((tmp_path / "begun").exists, 120, "the job that hangs is at it")
    assert jobs[CANCELLED].cancel_and_measure()[0] is JobState.CANCELLED
    states = [job.wait(240) for job in jobs]
    expected = [JobState.DONE] * JOBS
    expected[FAILING], expected[CANCELLED] = JobState.FAILED, JobState.CANCELLED
    assert states == expected
    assert any("ZeroDivisionError" in m.text for m in jobs[FAILING].messages())
    server.wait_until_idle()
    with JobClient(server.address) as client:
        known = {info.job_id: info.state for info in client.list_jobs()}
    assert [known[job.job_id] for job in jobs] == expected


def stream(pipeline: beam.Pipeline, seen: Path) -> None:
    """Counts ticks in windows, and writes a byte for each window that closes."""

    def note(key: str, ticks: list[object]) -> None:
        with seen.open("ab") as file:
            file.write(b".")

    (
        pipeline
        | PeriodicImpulse(fire_interval=0.1)
        | beam.WindowInto(FixedWindows(0.2))
        | beam.WithKeys("k")
        | beam.GroupByKey()
        | beam.MapTuple(note)
    )


def test_concurrent_streams_and_batch_all_make_progress(
    embedded: Pipelines, tmp_path: Path
) -> None:
    seen = [tmp_path / "one", tmp_path / "other"]
    streams = []
    for path in seen:
        path.touch()
        pipeline = embedded.new("--streaming")
        stream(pipeline, path)
        streams.append(embedded.job(pipeline))
    for path in seen:
        wait_until(lambda path=path: path.stat().st_size > 2, 60, "both streams are at work")
    before = [path.stat().st_size for path in seen]
    pipeline = embedded.new()
    work(pipeline, 1)
    assert embedded.job(pipeline).wait(60) is JobState.DONE
    for path, size in zip(seen, before, strict=True):
        wait_until(lambda path=path, size=size: path.stat().st_size > size, 60, "both went on")
    for job in streams:
        assert job.cancel_and_measure()[0] is JobState.CANCELLED
