"""Tests of the state of a waiting stream, and of a failed stream, after a restart of the server."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.jobs import JobState
from beam_runner_model.stories import BundleStatus
from failing_streams import COUNT, FailUntilFileExists, NumberSource, check_ordinals, count_by_key
from jobs import Job
from server_lives import ServerLives
from waiting import wait_until


def story_of(job: Job) -> BundleStatus:
    """Returns whether the journal of a job knows its first bundle."""
    with JobClient(job.address) as client:
        return client.get_bundle_history(job.job_id, 0).status


def kept_until(job: Job) -> float | None:
    with JobClient(job.address) as client:
        return {one.job_id: one.kept_until for one in client.get_job_times()}[job.job_id]


def folder_of(lives: ServerLives, job: Job) -> Path:
    return lives.state / "jobs" / job.job_id


@pytest.mark.timeout(240)
def test_stream_with_a_waiting_bundle_resumes_on_the_next_server(
    lives: ServerLives, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    fails = FailUntilFileExists(COUNT // 2, mended)
    pipeline = lives.embedded.new("--streaming")
    numbers = (
        pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource()) | "Fails" >> beam.ParDo(fails)
    )
    assert_that(count_by_key(numbers), check_ordinals)
    job = lives.embedded.job(pipeline)

    def attempts() -> int:
        with JobClient(lives.address) as client:
            try:
                failed = client.get_execution(job.job_id).failed
            except JobApiError:
                return 0  # The next server has not started the job yet.
            return max((one.attempts for one in failed), default=0)

    wait_until(attempts, 60, "a bundle waits")
    lives.restart()
    wait_until(lambda: attempts() >= 2, 60, "it waits again, by the attempts that it had")
    mended.touch()
    assert job.wait() is JobState.DONE


@pytest.mark.timeout(240)
def test_state_of_failed_streams_is_retained_by_the_next_server(
    lives: ServerLives,
) -> None:
    def fail(number: int) -> int:
        raise ValueError("for ever")

    def submit(*flags: str) -> Job:
        pipeline = lives.embedded.new("--streaming", *flags)
        numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource())
        count_by_key(numbers) | beam.Map(lambda value: value[2]) | "Fails" >> beam.Map(fail)
        return lives.embedded.job(pipeline)

    failed, cancelled = submit("--beam_spark_task_attempts=1"), submit()
    bounded = lives.embedded.new()
    bounded | beam.Create([1]) | beam.Map(fail)
    ended = lives.embedded.job(bounded)
    assert failed.wait() is JobState.FAILED
    cancelled.cancel()
    assert cancelled.wait() is JobState.CANCELLED
    assert ended.wait() is JobState.FAILED
    for restarts in (0, 1):
        if restarts:
            lives.restart()
        for job in (failed, cancelled):
            assert kept_until(job) is not None
            assert folder_of(lives, job).is_dir()
            assert story_of(job) in (BundleStatus.COMMITTED, BundleStatus.COMPACTED)
        assert kept_until(ended) is None
        assert story_of(ended) is BundleStatus.NO_JOURNAL
        assert not folder_of(lives, ended).exists()
    lives.restart("--keep-failed-streams=0")
    for job in (failed, cancelled):
        assert kept_until(job) is None
        wait_until(lambda one=job: not folder_of(lives, one).exists(), 30, "its folder is removed")
