"""Fakes of a runner, of pipelines and of a clock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from beam_runner_model.jobs import JobMetrics, JobSpec, JobState
from beam_runner_storage.durable.folders import MARKER

from beam_runner_jobservices._protos import beam_runner_api_pb2 as runner_api
from beam_runner_jobservices.ports import JobReporter

LIMIT = 60.0


class FakeJob:
    """A job that the test drives through `reporter`. It reports CANCELLED after a cancel, and DRAINED after a drain."""

    def __init__(self, spec: JobSpec, reporter: JobReporter) -> None:
        self.spec = spec
        self.reporter = reporter
        self.cancels = 0
        self.drains = 0
        self.reported_metrics = JobMetrics()

    def cancel(self) -> None:
        self.cancels += 1
        self.reporter.report_state(JobState.CANCELLED)

    def drain(self) -> None:
        self.drains += 1
        self.reporter.report_state(JobState.DRAINED)

    def get_metrics(self) -> JobMetrics:
        return self.reported_metrics


class FakeExecutor:
    """An executor that records its jobs. `on_start` can raise an error, or report a state."""

    def __init__(self) -> None:
        self.jobs: list[FakeJob] = []
        self.on_start: Callable[[FakeJob], None] = lambda job: None

    def __call__(self, job: JobSpec, reporter: JobReporter) -> FakeJob:
        fake = FakeJob(job, reporter)
        self.jobs.append(fake)
        self.on_start(fake)
        return fake

    def job(self, job_id: str) -> FakeJob:
        return next(fake for fake in self.jobs if fake.spec.job_id == job_id)


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def run_to_end(job: FakeJob) -> None:
    """Finishes the job immediately, for `FakeExecutor.on_start`."""
    job.reporter.report_state(JobState.RUNNING)
    job.reporter.report_state(JobState.DONE)


def pipeline_proto() -> runner_api.Pipeline:
    """Returns a pipeline with one impulse, in an environment without dependencies."""
    pipeline = runner_api.Pipeline(root_transform_ids=["impulse"])
    components = pipeline.components
    components.transforms["impulse"].unique_name = "Create/Impulse"
    components.transforms["impulse"].spec.urn = "beam:transform:impulse:v1"
    components.transforms["impulse"].outputs["out"] = "bytes"
    components.pcollections["bytes"].coder_id = "bytes_coder"
    components.pcollections["bytes"].windowing_strategy_id = "global"
    components.windowing_strategies["global"].window_coder_id = "window_coder"
    components.coders["bytes_coder"].spec.urn = "beam:coder:bytes:v1"
    components.coders["window_coder"].spec.urn = "beam:coder:global_window:v1"
    components.environments["python"].urn = "beam:env:docker:v1"
    return pipeline


def file_artifact(path: Path, staged_name: str, sha256: str = "") -> runner_api.ArtifactInformation:
    return runner_api.ArtifactInformation(
        type_urn="beam:artifact:type:file:v1",
        type_payload=runner_api.ArtifactFilePayload(
            path=str(path), sha256=sha256
        ).SerializeToString(),
        role_urn="beam:artifact:role:staging_to:v1",
        role_payload=runner_api.ArtifactStagingToRolePayload(
            staged_name=staged_name
        ).SerializeToString(),
    )


def files_in(folder: Path) -> list[Path]:
    """Returns the sorted files of an artifact store, without its lock, its marker and files that vanish meanwhile."""
    found = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return sorted(path for path in found if path.is_file() and path.name not in ("lock", MARKER))


def threads(name: str) -> int:
    return sum(thread.name == name for thread in threading.enumerate())
