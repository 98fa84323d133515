"""Tests of the result of a job on a real job server, whose jobs do what a test reports."""

from __future__ import annotations

import io
import logging
import signal
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
from beam_runner_model.jobs import Importance, JobMetrics, JobSpec, JobState, MetricCell
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.varints import encode_varint
from beam_runner_urns.metrics import LATEST_INT64_TYPE as LATEST
from beam_runner_urns.metrics import SUM_INT64_TYPE as SUM

from beam_spark_executor.client.displays import Display, LineDisplay, SilentDisplay, TerminalDisplay
from beam_spark_executor.client.following import JobConnection
from beam_spark_executor.client.progress import JobProgress
from beam_spark_executor.client.result import BeamSparkResult

SECONDS = 60.0
ELEMENTS = "beam:metric:element_count:v1"


class FakeJob:
    """A running job that a test moves by `reporter`."""

    def __init__(self, spec: JobSpec, reporter: JobReporter) -> None:
        self.job_id = spec.job_id
        self.reporter = reporter
        self.given = JobMetrics()

    def cancel(self) -> None:
        self.reporter.report_state(JobState.CANCELLED)

    def drain(self) -> None:
        self.reporter.report_state(JobState.DRAINED)

    def get_metrics(self) -> JobMetrics:
        return self.given


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
        reporter.report_state(JobState.RUNNING)
        return job

    def submit(self) -> str:
        """Runs a job; returns its id."""
        pipeline = beam.Pipeline()
        _ = pipeline | beam.Create([1])
        with JobClient(self.address) as client:
            return client.submit_job(pipeline.to_runner_api().SerializeToString())

    def job(self, job_id: str) -> FakeJob:
        """Returns the job, after the server has started it."""
        limit = time.monotonic() + SECONDS
        while job_id not in self._jobs and time.monotonic() < limit:
            time.sleep(0.01)
        return self._jobs[job_id]

    def announce(self, url: str) -> None:
        """Announces web pages to clients."""
        self._server.door.announce_pages(url)

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
    server: FakeServer,
    job_id: str,
    seconds: float = SECONDS,
    get_exit_reason: str = "",
    display: Display | None = None,
) -> BeamSparkResult:
    address = JobConnection(server.address, job_id, seconds, lambda: get_exit_reason)
    progress = JobProgress(display or SilentDisplay())
    of = PipelineResult(None, job_id, None, None)
    return BeamSparkResult(of, address, progress, "it goes on")


@pytest.mark.parametrize("state", [JobState.DONE, JobState.DRAINED, JobState.UPDATED])
def test_wait_until_finish_returns_successful_state(
    server: FakeServer, job_id: str, state: JobState
) -> None:
    ours = result(server, job_id)
    assert ours.state == "RUNNING"
    if state is JobState.DRAINED:
        server.job(job_id).reporter.report_state(JobState.DRAINING)
    server.job(job_id).reporter.report_state(state)
    assert ours.wait_until_finish() == state.name
    assert ours.state == state.name


def test_job_cancelled_by_same_program_raises_no_error(server: FakeServer, job_id: str) -> None:
    ours = result(server, job_id)
    ours.cancel()
    assert ours.wait_until_finish() == "CANCELLED"


def test_result_of_drained_job_returns_drained_state(server: FakeServer, job_id: str) -> None:
    ours = result(server, job_id)
    ours.drain()
    assert ours.wait_until_finish() == "DRAINED"


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED])
def test_wait_until_finish_raises_for_failed_state(
    server: FakeServer, job_id: str, state: JobState
) -> None:
    server.job(job_id).reporter.report_state(state, "because")
    with pytest.raises(RuntimeError, match=f"{job_id}.* {state.name}"):
        result(server, job_id).wait_until_finish()


def test_result_follows_job_through_restart_of_server(
    server: FakeServer, job_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    ours = result(server, job_id)
    server.job(job_id).reporter.report_message(Importance.WARNING, "before")
    assert ours.wait_until_finish(1000) == "RUNNING"
    server.stop()
    assert ours.wait_until_finish(2000) == "RUNNING"
    server.restart()
    assert ours.state == "RUNNING"
    server.job(job_id).reporter.report_message(Importance.WARNING, "after")
    server.job(job_id).reporter.report_state(JobState.DONE)
    assert ours.wait_until_finish() == "DONE"
    warnings = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert [warnings.count(text) for text in ("before", "after")] == [1, 1]
    lost = [text for text in warnings if "doesn't respond" in text]
    assert len(lost) == 1
    assert server.address in lost[0]


def test_result_of_job_raises_one_sentence_if_server_is_lost_beyond_limit(
    server: FakeServer, job_id: str
) -> None:
    ours = result(server, job_id, seconds=1.0)
    server.stop()
    for wait in (ours.wait_until_finish, lambda: ours.state, ours.cancel):
        with pytest.raises(RuntimeError, match=f"^Can't follow the job {job_id}: .* 1 s") as raised:
            wait()
        assert "\n" not in str(raised.value)


def test_result_of_job_raises_exit_reason_of_server_started_by_program(
    server: FakeServer, job_id: str
) -> None:
    ours = result(server, job_id, get_exit_reason="Spark is gone")
    server.stop()
    with pytest.raises(RuntimeError, match=f"^Can't follow the job {job_id}: Spark is gone$"):
        ours.wait_until_finish()


def test_result_of_job_unknown_to_server_raises_error_with_advice(
    server: FakeServer, job_id: str, tmp_path: Path
) -> None:
    ours = result(server, job_id)
    assert ours.wait_until_finish(500) == "RUNNING"
    server.stop()
    server.restart("other")
    with pytest.raises(RuntimeError, match="doesn't know the job"):
        ours.wait_until_finish()


def test_wait_until_finish_can_be_repeated_after_timeout(server: FakeServer, job_id: str) -> None:
    ours = result(server, job_id)
    assert ours.wait_until_finish(1000) == "RUNNING"
    assert ours.wait_until_finish(100) == "RUNNING"
    ours.cancel()
    assert ours.wait_until_finish() == ours.wait_until_finish(100) == "CANCELLED"


def test_job_failure_is_raised_in_each_waiting_thread(server: FakeServer, job_id: str) -> None:
    until = threading.Event()
    ours = result(server, job_id)
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(ours.wait_until_finish) for _ in range(2)]
        until.wait(0.5)
        server.job(job_id).reporter.report_state(JobState.FAILED, "no")
        for one in waits:
            with pytest.raises(RuntimeError, match=job_id):
                one.result(60)


def test_progress_lines_show_web_page_and_end_of_job(server: FakeServer, job_id: str) -> None:
    stream = io.StringIO()
    ours = result(server, job_id, display=LineDisplay(stream))
    assert ours.wait_until_finish(1000) == "RUNNING"
    server.announce("http://localhost:8074/")
    wait_for_text(stream, "page of the job")
    server.job(job_id).reporter.report_state(JobState.DONE)
    ours.wait_until_finish()
    page, end = stream.getvalue().splitlines()
    assert page == f"page of the job: http://localhost:8074/jobs/{job_id}"
    assert end.startswith(f"job {job_id} is DONE after ")


def test_progress_on_terminal_shows_stages_and_elements(server: FakeServer, job_id: str) -> None:
    server.job(job_id).given = JobMetrics(
        (
            *stage_cells("a", MAX_TIMESTAMP),
            *stage_cells("b", 0),
            MetricCell(ELEMENTS, SUM, b"\x05", {"PCOLLECTION": "x"}),
            MetricCell(ELEMENTS, SUM, b"\x02", {"PCOLLECTION": "y"}),
        )
    )
    stream = io.StringIO()
    ours = result(server, job_id, display=TerminalDisplay(stream))
    ours.wait_until_finish(100)
    wait_for_text(stream, "1 of 2 stages finished, 7 elements")
    server.job(job_id).reporter.report_state(JobState.DONE)
    ours.wait_until_finish()
    assert stream.getvalue().endswith(": 2 of 2 stages finished, 7 elements\n")


def test_fatal_job_error_is_raised_and_not_logged(
    server: FakeServer, job_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    reporter = server.job(job_id).reporter
    reporter.report_message(Importance.ERROR, "an error in user code")
    reporter.report_state(JobState.FAILED, "ValueError: fatal [while running 'Step']")
    with pytest.raises(RuntimeError) as raised:
        result(server, job_id).wait_until_finish()
    assert str(raised.value).splitlines()[-1].endswith("ValueError: fatal [while running 'Step']")
    errors = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert errors == ["an error in user code"]


def test_interrupted_wait_until_finish_says_whether_job_continues(
    server: FakeServer, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    ours = result(server, job_id, display=LineDisplay(stream))
    ours.wait_until_finish(100)
    assert ours._observer is not None
    # A shell can start its background processes with SIGINT ignored, and tests inherit that.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(ours._observer, "join", lambda seconds: signal.raise_signal(signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            ours.wait_until_finish()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert stream.getvalue() == "it goes on\n"


def wait_for_text(stream: io.StringIO, text: str) -> None:
    limit = time.monotonic() + SECONDS
    while text not in stream.getvalue() and time.monotonic() < limit:
        time.sleep(0.02)
    assert text in stream.getvalue()


def stage_cells(stage: str, watermark: int) -> tuple[MetricCell, ...]:
    labels = {"STAGE": stage, "PTRANSFORM": stage}
    return tuple(
        MetricCell(f"beam_spark:stage:{name}:v1", LATEST, b"\x01" + encode_varint(value), labels)
        for name, value in (("output_watermark", watermark), ("open_bundles", 0))
    )
