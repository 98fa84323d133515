"""A job server whose jobs do nothing until a test reports their states and messages."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.guard import AccessGuard
from beam_runner_jobservices.ports import JobReporter
from beam_runner_jobservices.server import JobServer
from beam_runner_model.failures import FailedBundle
from beam_runner_model.jobs import JobInfo, JobMetrics, JobSpec, JobState, MetricCell
from beam_runner_model.observation import Execution, StageTimeSeries, ThreadStack
from beam_runner_model.stories import BundleHistory, BundleStatus, HistoryEvent
from beam_runner_model.successions import RollbackRequest, Succession
from beam_runner_model.varints import encode_varint
from beam_runner_model.waits import Wait, WaitKind

from beam_runner_server import cli
from beam_runner_server.plain import PlainProgram

STORY = BundleHistory(
    7,
    BundleStatus.COMMITTED,
    "s",
    ("Count",),
    None,
    (HistoryEvent("committed", 9, 1, 5, 0, "h", 3),),
)
END = 9_223_371_950_454_775
"""The end of the global window in ms."""


def stage_cells(stage: str, name: str, watermark: int, committed: int) -> tuple[MetricCell, ...]:
    labels = {"STAGE": stage, "PTRANSFORM": name}
    names = name.split(" + ")
    texts = b"".join(encode_varint(len(one)) + one.encode() for one in names)

    def cell(urn: str, kind: str, payload: bytes) -> MetricCell:
        return MetricCell(f"beam_spark:stage:{urn}:v1", f"beam:metrics:{kind}:v1", payload, labels)

    return (
        cell("output_watermark", "latest_int64", encode_varint(1) + encode_varint(watermark)),
        cell(
            "open_bundles",
            "latest_int64",
            encode_varint(1) + encode_varint(0 if watermark == END else 2),
        ),
        cell("transforms", "set_string", struct.pack(">i", len(names)) + texts),
        cell("bundles_committed", "sum_int64", encode_varint(committed)),
    )


class FakeJob:
    """A running job, and the reporter by which a test moves the job."""

    def __init__(self, spec: JobSpec, reporter: JobReporter) -> None:
        self.job_id = spec.job_id
        self.reporter = reporter
        self.given = JobMetrics()
        self.doing = Execution()

    def cancel(self) -> None:
        self.reporter.report_state(JobState.CANCELLED)

    def drain(self) -> None:
        """Does nothing: the job stays DRAINING."""

    def get_metrics(self) -> JobMetrics:
        return self.given

    def get_execution(self) -> Execution:
        return self.doing

    def get_stage_series(self) -> tuple[StageTimeSeries, ...]:
        return ()

    def get_stacks(self) -> tuple[ThreadStack, ...]:
        return ()


class FakeServer:
    """A job server with fake jobs, and the command line of a program."""

    def __init__(self, folder: Path, guard: AccessGuard | None = None) -> None:
        self._jobs: dict[str, FakeJob] = {}
        self.rollbacks: list[RollbackRequest] = []
        self.succession_of_next_job = Succession()
        self.end_of_next_job: tuple[JobState, str | None] | None = None
        self._server = JobServer(
            self._start,
            artifacts_dir=folder / "a",
            port=0,
            tell_story=self._find_story,
            guard=guard,
            plan_rollback=self._plan_rollback,
        )
        self.address = self._server.address
        self._server.start()

    def _start(self, spec: JobSpec, reporter: JobReporter) -> FakeJob:
        job = self._jobs[spec.job_id] = FakeJob(spec, reporter)
        reporter.record_succession(self.succession_of_next_job)
        if self.end_of_next_job is None:
            reporter.report_state(JobState.RUNNING)
        else:
            reporter.report_state(*self.end_of_next_job)
        return job

    def _plan_rollback(
        self, running: JobInfo, replaced: JobSpec, request: RollbackRequest
    ) -> Mapping[str, Any]:
        self.rollbacks.append(request)
        return replaced.options

    def _find_story(self, job_id: str, bundle: int) -> BundleHistory:
        return STORY if bundle == 7 else BundleHistory(bundle, BundleStatus.UNKNOWN, next_bundle=8)

    def submit(self, name: str, token: str = "") -> FakeJob:
        """Runs a job that counts."""
        pipeline = beam.Pipeline()
        _ = pipeline | "Make" >> beam.Create([1]) | "Double" >> beam.Map(lambda x: 2 * x)
        with JobClient(self.address, credentials=Credentials(token=token)) as client:
            job_id = client.submit_job(pipeline.to_runner_api().SerializeToString(), {}, name)
        return self._jobs[job_id]

    def ids(self) -> list[str]:
        """Returns the ids of all jobs."""
        return list(self._jobs)

    def run(self, command: str, *arguments: str) -> int:
        """Runs a command for jobs of this server; returns the exit code."""
        words = [command, "--job-endpoint", self.address, *arguments]
        return cli.main(words, PlainProgram())

    def stop(self) -> None:
        """Stops the server."""
        self._server.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeServer]:
    server = FakeServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def stuck(server: FakeServer) -> FakeJob:
    """A job with one finished stage, one stage that waits, and a failed bundle."""
    job = server.submit("stuck")
    job.given = JobMetrics((*stage_cells("s1", "Make", END, 5), *stage_cells("s2", "Double", 0, 1)))
    failed = FailedBundle("s2", 3, ("Double",), 2, "user_code", error="ValueError: \x1b[31mno")
    wait = Wait(WaitKind.RETRY, "s2", ("Double",), 1)
    job.doing = Execution((), (failed,), (wait,), 12.0, 1)
    return job
