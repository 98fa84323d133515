"""What a restart of the server leaves of a stream that waits, and of one that ended before its time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.jobs import JobState
from failing_streams import COUNT, FailsForAWhile, Numbers, check_ordinals, counted
from job_server import JobServerProcess
from jobs import Job, Pipelines
from waiting import wait_until


class Lives:
    """A server that is stopped and started again, with other flags."""

    def __init__(self, temporary: Path, state: Path, placement: tuple[str, ...]) -> None:
        self._temporary = temporary
        self._flags = (f"--state-dir={state}", *placement)
        self.state = state
        self.server = self._start()

    def _start(self, *flags: str) -> JobServerProcess:
        return JobServerProcess(self._temporary, *self._flags, *flags)

    def again(self, *flags: str) -> None:
        """Stops the server, which leaves its jobs, and starts it anew."""
        self.server.stop()
        self.server = self._start(*flags)

    @property
    def pipelines(self) -> Pipelines:
        return Pipelines(self.server.address, "embedded", [])

    def job(self, job_id: str) -> Job:
        """The job, as a client of this life sees it."""
        return Job(self.server.address, job_id, Result())

    def kept(self, job_id: str) -> float | None:
        with JobClient(self.server.address) as client:
            return {one.job_id: one.kept_until for one in client.job_times()}[job_id]

    def folder(self, job_id: str) -> Path:
        return self.state / "jobs" / job_id


class Result:
    """Nothing runs in this process."""

    def _cleanup(self) -> None:
        pass


@pytest.fixture
def lives(tmp_path: Path, placement: tuple[str, ...]) -> Iterator[Lives]:
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as temporary:
        lives = Lives(Path(temporary), tmp_path / "state", placement)
        yield lives
        lives.server.kill()


@pytest.mark.timeout(240)
def test_stream_whose_bundle_waits_goes_on_with_the_next_server(
    lives: Lives, tmp_path: Path
) -> None:
    fails = FailsForAWhile(COUNT // 2, 20.0, tmp_path / "began")
    pipeline = lives.pipelines.new("--streaming")
    numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(Numbers()) | "Fails" >> beam.ParDo(fails)
    assert_that(counted(numbers), check_ordinals)
    job_id = lives.pipelines.job(pipeline).job_id

    def waits() -> bool:
        with JobClient(lives.server.address) as client:
            try:
                execution = client.execution(job_id)
            except JobApiError:
                return False  # The next server has not begun to run the job yet.
            return any(one.next_in is not None for one in execution.failed)

    wait_until(waits, 60, "a bundle waits")
    lives.again()
    wait_until(waits, 60, "it waits again, by the attempts that it had")
    with JobClient(lives.server.address) as client:
        attempts = max(one.attempts for one in client.execution(job_id).failed)
    assert attempts >= 2
    assert lives.job(job_id).wait() is JobState.DONE


@pytest.mark.timeout(240)
def test_state_of_streams_that_ended_is_kept_by_the_next_server_for_as_long_as_it_says(
    lives: Lives,
) -> None:
    def fail(number: int) -> int:
        raise ValueError("for ever")

    def submit(*flags: str) -> str:
        pipeline = lives.pipelines.new("--streaming", *flags)
        numbers = pipeline | beam.Create([COUNT]) | beam.ParDo(Numbers())
        counted(numbers) | beam.Map(lambda value: value[2]) | "Fails" >> beam.Map(fail)
        return lives.pipelines.job(pipeline).job_id

    failed, cancelled = submit("--beam_spark_task_attempts=1"), submit()
    bounded = lives.pipelines.new()
    bounded | beam.Create([1]) | beam.Map(fail)
    ended = lives.pipelines.job(bounded).job_id
    assert lives.job(failed).wait() is JobState.FAILED
    lives.job(cancelled).cancel()
    assert lives.job(cancelled).wait() is JobState.CANCELLED
    assert lives.job(ended).wait() is JobState.FAILED
    for restarts in (0, 1):
        if restarts:
            lives.again()
        for job_id in (failed, cancelled):
            assert lives.kept(job_id) is not None
            assert lives.folder(job_id).is_dir()
        assert lives.kept(ended) is None
        assert not lives.folder(ended).exists()
    lives.again("--keep-failed-streams=0")
    for job_id in (failed, cancelled):
        assert lives.kept(job_id) is None
        wait_until(lambda one=job_id: not lives.folder(one).exists(), 30, "its folder is removed")
