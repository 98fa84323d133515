"""Tests that a stream survives temporary failures with exact results, and that a failed stream retains its state."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_jobservices.client import JobClient
from beam_runner_model.failures import FailedBundle, FailureCause
from beam_runner_model.jobs import JobState
from failing_streams import (
    COUNT,
    CountPerKey,
    FailUntilFileExists,
    FailUntilFileExistsForPairs,
    NumberSource,
    check_ordinals,
    count_by_key,
)
from job_server import JobServerProcess, job_server
from jobs import Job, Pipelines
from waiting import wait_until


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def patient(placement: tuple[str, ...], state_dir: Path) -> Iterator[JobServerProcess]:
    """Yields a server with default flags, whose jobs survive it."""
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(Path(folder), f"--state-dir={state_dir}", *placement) as running,
    ):
        yield running


class Note(beam.DoFn):
    """Writes a line for each element, in a file of each process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, element: Any) -> Iterator[Any]:
        with (self._folder / f"{os.getpid()}-{threading.get_ident()}").open("a") as file:
            file.write(f"{element}\n")
        yield element


def failed_bundles(job: Job) -> tuple[FailedBundle, ...]:
    with JobClient(job.address) as client:
        return client.get_execution(job.job_id).failed


def wait_for_attempts(job: Job, attempts: int) -> tuple[FailedBundle, ...]:
    """Waits until a bundle has failed so often; returns the bundles that have failed."""
    wait_until(
        lambda: any(one.attempts >= attempts for one in failed_bundles(job)),
        60,
        f"a bundle has failed {attempts} times",
    )
    return failed_bundles(job)


def texts(job: Job) -> list[str]:
    return [message.text for message in job.messages()]


@pytest.mark.slow_in("LOOPBACK")
def test_stream_with_a_temporarily_failing_step_gives_exact_results(
    streams: Pipelines, tmp_path: Path
) -> None:
    fails = FailUntilFileExists(COUNT // 2, tmp_path / "mended")
    pipeline = streams.new("--streaming")
    numbers = (
        pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource()) | "Fails" >> beam.ParDo(fails)
    )
    assert_that(count_by_key(numbers), check_ordinals)
    job = streams.job(pipeline)
    (failed, *_) = wait_for_attempts(job, 2)
    assert failed.kind is FailureCause.USER_CODE
    assert failed.step == "Fails"
    assert f"ValueError: not yet: {COUNT // 2}" in failed.error
    (tmp_path / "mended").touch()
    assert job.wait() is JobState.DONE
    found = [text for text in texts(job) if "failed and will be retried" in text]
    assert len(found) >= 2
    assert any("not yet" in text and "Fails" in text for text in found)


@pytest.mark.slow_in("LOOPBACK")
def test_state_before_a_fused_failing_step_gives_exact_results(
    streams: Pipelines, tmp_path: Path
) -> None:
    """The failing step is fused behind the stateful step, whose bundle fails and runs again."""
    fails = FailUntilFileExists(COUNT // 2, tmp_path / "mended")
    pipeline = streams.new("--streaming")
    ordinals = count_by_key(pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource()))
    kept = (
        ordinals
        | beam.Map(lambda value: (value[2], value))
        | "Fails" >> beam.ParDo(FailUntilFileExistsForPairs(fails))
    )
    assert_that(kept, check_ordinals)
    job = streams.job(pipeline)
    wait_for_attempts(job, 2)
    (tmp_path / "mended").touch()
    assert job.wait() is JobState.DONE


def test_bundle_that_waits_for_its_retry_does_not_block_other_keys_and_steps(
    streams: Pipelines, tmp_path: Path
) -> None:
    noted = tmp_path / "noted"
    noted.mkdir()
    never = FailUntilFileExists(1, tmp_path / "mended")
    pipeline = streams.new("--streaming")
    numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource())
    numbers | "Others" >> beam.Reshuffle() | "Note" >> beam.ParDo(Note(noted))
    pairs = numbers | beam.Map(lambda n: (n, n)) | "Keyed" >> beam.ParDo(CountPerKey())
    pairs | beam.Map(lambda value: value[2]) | "Fails" >> beam.ParDo(never)
    job = streams.job(pipeline)

    def lines() -> set[int]:
        return {int(line) for file in noted.iterdir() for line in file.read_text().split()}

    wait_until(lambda: lines() == set(range(COUNT)), 60, "the other branch has all numbers")
    (failed,) = wait_for_attempts(job, 1)
    assert failed.step == "Fails"
    job.cancel()
    assert job.wait(60) is JobState.CANCELLED


def test_stream_with_an_attempt_limit_fails_and_keeps_its_state(
    streams: Pipelines, patient: JobServerProcess, state_dir: Path
) -> None:
    pipeline = streams.new("--streaming", "--beam_spark_task_attempts=2")
    numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource())

    def fail(number: int) -> int:
        raise ValueError("for ever")

    numbers | "Fails" >> beam.Map(fail)
    job = streams.job(pipeline)
    assert job.wait() is JobState.FAILED
    found = texts(job)
    assert any("the state of this stream is kept until" in text for text in found)
    assert "ValueError: for ever" in found[-1]
    assert "(attempt 2 of 2)" in found[-1]
    with JobClient(patient.address) as client:
        kept = {one.job_id: one.kept_until for one in client.get_job_times()}[job.job_id]
    assert kept == pytest.approx(time.time() + 7 * 24 * 3600, abs=600)
    assert (state_dir / "jobs" / job.job_id).is_dir()


def test_pipeline_with_test_stream_or_only_the_streaming_flag_fails_without_a_retry(
    streams: Pipelines,
) -> None:
    """Beam's own tests expect that a failed assertion fails the job."""
    scripted = streams.new("--streaming")
    assert_that(
        scripted | Stream().add_elements([1]).advance_watermark_to_infinity(), equal_to([2])
    )
    assert streams.job(scripted).wait() is JobState.FAILED
    bounded = streams.new("--streaming")
    assert_that(bounded | beam.Create([1]), equal_to([2]))
    assert streams.job(bounded).wait() is JobState.FAILED


def test_stream_survives_a_repeatedly_killed_worker(
    patient: JobServerProcess, flags_of: Callable[[str], list[str]], tmp_path: Path
) -> None:
    """The worker is killed more often than a bounded job allows."""
    streams = Pipelines(patient.address, "embedded", flags_of("embedded"))
    deaths = tmp_path / "deaths"
    deaths.mkdir()

    def die(number: int) -> int:
        if number == COUNT // 2 and len(list(deaths.iterdir())) < 6:
            (deaths / str(time.time_ns())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    pipeline = streams.new("--streaming")
    numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource()) | "Die" >> beam.Map(die)
    assert_that(count_by_key(numbers), check_ordinals)
    assert streams.job(pipeline).wait(180) is JobState.DONE
