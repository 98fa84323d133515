"""Tests of the result of a job on a real job server, whose jobs do what a test reports."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.portability.portable_runner import PipelineResult
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.ports import JobReporter
from beam_runner_jobservices.server import JobServer
from beam_runner_model.jobs import Importance, JobMetrics, JobSpec, JobState

from beam_spark_executor.client.following import JobAddress
from beam_spark_executor.client.result import BeamSparkResult

SECONDS = 60.0


class FakeJob:
    """A running job that a test moves by `reporter`."""

    def __init__(self, spec: JobSpec, reporter: JobReporter) -> None:
        self.job_id = spec.job_id
        self.reporter = reporter

    def cancel(self) -> None:
        self.reporter.state(JobState.CANCELLED)

    def drain(self) -> None:
        self.reporter.state(JobState.DRAINED)

    def metrics(self) -> JobMetrics:
        return JobMetrics()


class FakeServer:
    """A job server that can restart at its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs: dict[str, FakeJob] = {}
        self._server = self._start(0)
        self.address = f"localhost:{self._server.port}"

    def _start(self, port: int, state: str = "state") -> JobServer:
        server = JobServer(
            self._run,
            artifacts_dir=self._folder / state / "artifacts",
            state_dir=self._folder / state,
            port=port,
        )
        server.start()
        return server

    def _run(self, spec: JobSpec, reporter: JobReporter) -> FakeJob:
        job = self._jobs[spec.job_id] = FakeJob(spec, reporter)
        reporter.state(JobState.RUNNING)
        return job

    def submit(self) -> str:
        """Runs a job; returns its id."""
        pipeline = beam.Pipeline()
        _ = pipeline | beam.Create([1])
        with JobClient(self.address) as client:
            return client.submit(pipeline.to_runner_api().SerializeToString())

    def job(self, job_id: str) -> FakeJob:
        """Returns the job, after the server has started it."""
        limit = time.monotonic() + SECONDS
        while job_id not in self._jobs and time.monotonic() < limit:
            time.sleep(0.01)
        return self._jobs[job_id]

    def stop(self) -> None:
        self._server.stop()

    def restart(self, state: str = "state") -> None:
        """Starts the server again, by default with the same state."""
        self._jobs.clear()
        self._server = self._start(int(self.address.rpartition(":")[2]), state)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeServer]:
    server = FakeServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def job_id(server: FakeServer) -> str:
    return server.submit()


def result(
    server: FakeServer, job_id: str, seconds: float = SECONDS, exit_reason: str = ""
) -> BeamSparkResult:
    address = JobAddress(server.address, job_id, seconds, lambda: exit_reason)
    return BeamSparkResult(PipelineResult(None, job_id, None, None), address)


@pytest.mark.parametrize("state", [JobState.DONE, JobState.DRAINED])
def test_wait_until_finish_returns_successful_state(
    server: FakeServer, job_id: str, state: JobState
) -> None:
    ours = result(server, job_id)
    assert ours.state == "RUNNING"
    if state is JobState.DRAINED:
        server.job(job_id).reporter.state(JobState.DRAINING)
    server.job(job_id).reporter.state(state)
    assert ours.wait_until_finish() == state.name
    assert ours.state == state.name


def test_cancel_by_same_program_raises_no_error(server: FakeServer, job_id: str) -> None:
    ours = result(server, job_id)
    ours.cancel()
    assert ours.wait_until_finish() == "CANCELLED"


def test_drain_by_result_returns_drained(server: FakeServer, job_id: str) -> None:
    ours = result(server, job_id)
    ours.drain()
    assert ours.wait_until_finish() == "DRAINED"


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED])
def test_wait_until_finish_raises_for_failed_state(
    server: FakeServer, job_id: str, state: JobState
) -> None:
    server.job(job_id).reporter.state(state, "because")
    with pytest.raises(RuntimeError, match=f"{job_id}.* {state.name}"):
        result(server, job_id).wait_until_finish()


def test_result_follows_job_through_restart_of_server(
    server: FakeServer, job_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    ours = result(server, job_id)
    server.job(job_id).reporter.message(Importance.WARNING, "before")
    assert ours.wait_until_finish(1000) == "RUNNING"
    server.stop()
    assert ours.wait_until_finish(2000) == "RUNNING"
    server.restart()
    assert ours.state == "RUNNING"
    server.job(job_id).reporter.message(Importance.WARNING, "after")
    server.job(job_id).reporter.state(JobState.DONE)
    assert ours.wait_until_finish() == "DONE"
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert [warnings.count(text) for text in ("before", "after")] == [1, 1]
    lost = [text for text in warnings if "doesn't respond" in text]
    assert len(lost) == 1
    assert server.address in lost[0]


def test_server_lost_beyond_limit_raises_one_sentence(server: FakeServer, job_id: str) -> None:
    ours = result(server, job_id, seconds=1.0)
    server.stop()
    for wait in (ours.wait_until_finish, lambda: ours.state, ours.cancel):
        with pytest.raises(RuntimeError, match=f"^Can't follow the job {job_id}: .* 1 s") as raised:
            wait()
        assert "\n" not in str(raised.value)


def test_exited_server_of_program_raises_its_reason(server: FakeServer, job_id: str) -> None:
    ours = result(server, job_id, exit_reason="Spark is gone")
    server.stop()
    with pytest.raises(RuntimeError, match=f"^Can't follow the job {job_id}: Spark is gone$"):
        ours.wait_until_finish()


def test_server_that_forgot_job_raises_advice(
    server: FakeServer, job_id: str, tmp_path: Path
) -> None:
    ours = result(server, job_id)
    assert ours.wait_until_finish(500) == "RUNNING"
    server.stop()
    server.restart("other")
    with pytest.raises(RuntimeError, match="doesn't know the job"):
        ours.wait_until_finish()


def test_wait_can_be_repeated_after_timeout(server: FakeServer, job_id: str) -> None:
    ours = result(server, job_id)
    assert ours.wait_until_finish(1000) == "RUNNING"
    assert ours.wait_until_finish(100) == "RUNNING"
    ours.cancel()
    assert ours.wait_until_finish() == ours.wait_until_finish(100) == "CANCELLED"


def test_failure_is_raised_in_each_waiting_thread(server: FakeServer, job_id: str) -> None:
    until = threading.Event()
    ours = result(server, job_id)
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(ours.wait_until_finish) for _ in range(2)]
        until.wait(0.5)
        server.job(job_id).reporter.state(JobState.FAILED, "no")
        for one in waits:
            with pytest.raises(RuntimeError, match=job_id):
                one.result(60)
