from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from apache_beam.portability.api import beam_runner_api_pb2 as runner_api
from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.ports import JobReporter
from beam_runner_jobservices.server import JobServer
from beam_runner_model.jobs import JobMetrics, JobSpec, JobState, MetricCell
from beam_runner_model.observation import (
    BundleProcessKind,
    Execution,
    ObservedBundle,
    StageTimeSeries,
    ThreadStack,
)
from beam_runner_model.stories import BundleHistory, BundleStatus
from beam_runner_model.waits import Wait, WaitKind
from starlette.testclient import TestClient

from beam_runner_web.app import create_app
from beam_runner_web.settings import WebSettings

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "support"))


class Job:
    """A job that the test drives through `reporter`."""

    def __init__(self, spec: JobSpec, reporter: JobReporter) -> None:
        self.spec = spec
        self.reporter = reporter
        self.given = JobMetrics()
        self.asked = 0

    @property
    def id(self) -> str:
        return self.spec.job_id

    def cancel(self) -> None:
        self.reporter.report_state(JobState.CANCELLED)

    def drain(self) -> None:
        self.reporter.report_state(JobState.DRAINED)

    def get_metrics(self) -> JobMetrics:
        self.asked += 1
        return self.given


class Server:
    """A job server whose jobs follow the test, and its client."""

    def __init__(self, folder: Path, port: int = 0, **more: Any) -> None:
        self.jobs: list[Any] = []
        self.kind: type[Job] = Job
        self.stories: dict[int, BundleHistory] = {}
        self.server = JobServer(
            self._run, artifacts_dir=folder, port=port, tell_story=self._story, **more
        )
        self.address = self.server.start()
        door = self.server.door
        self.client = JobClient(door.target, credentials=Credentials(token=door.token))

    def _story(self, job_id: str, bundle: int) -> BundleHistory:
        return self.stories.get(bundle) or BundleHistory(
            bundle, BundleStatus.UNKNOWN, next_bundle=3
        )

    def _run(self, spec: JobSpec, reporter: JobReporter) -> Job:
        job = self.kind(spec, reporter)
        self.jobs.append(job)
        return job

    def submit(self, pipeline: Any = None, name: str = "words", **options: Any) -> Any:
        """Returns a running job."""
        named = {f"beam:option:{key}:v1": value for key, value in options.items()}
        message = pipeline if pipeline is not None else word_count()
        self.client.submit_job(
            message.SerializeToString(), {"beam:option:job_name:v1": name, **named}, "job"
        )
        self.jobs[-1].reporter.report_state(JobState.RUNNING)
        return self.jobs[-1]

    def close(self) -> None:
        self.client.close()
        self.server.stop(grace=1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path / "artifacts")
    yield found
    found.close()


@pytest.fixture
def web(server: Server) -> Iterator[TestClient]:
    app = create_app(WebSettings(server.address))
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as client:
        yield client


def add_step(
    pipeline: runner_api.Pipeline,
    key: str,
    name: str,
    reads: Mapping[str, str] = {},
    writes: Mapping[str, str] = {},
    parts: tuple[str, ...] = (),
) -> None:
    """Adds a step, and the PCollections of its inputs and outputs."""
    step = pipeline.components.transforms[key]
    step.unique_name = name
    step.spec.urn = "beam:transform:pardo:v1" if not parts else "beam:transform:composite:v1"
    step.subtransforms.extend(parts)
    for ends, given in ((step.inputs, reads), (step.outputs, writes)):
        for tag, collection in given.items():
            ends[tag] = collection
            one = pipeline.components.pcollections[collection]
            one.coder_id = "bytes"
            one.windowing_strategy_id = "global"
            one.is_bounded = runner_api.IsBounded.BOUNDED


def word_count() -> runner_api.Pipeline:
    """Returns a graph with the steps Read (two parts), Count and Write in one root."""
    pipeline = runner_api.Pipeline(root_transform_ids=["root"])
    components = pipeline.components
    components.windowing_strategies["global"].window_coder_id = "window"
    components.windowing_strategies["global"].window_fn.urn = "beam:window_fn:global_windows:v1"
    components.coders["bytes"].spec.urn = "beam:coder:bytes:v1"
    components.coders["window"].spec.urn = "beam:coder:global_window:v1"
    components.environments["python"].urn = "beam:env:docker:v1"
    add_step(pipeline, "t1", "Read/Open", writes={"out": "files"})
    add_step(pipeline, "t2", "Read/Lines", reads={"in": "files"}, writes={"out": "lines"})
    add_step(pipeline, "t0", "Read", writes={"out": "lines"}, parts=("t1", "t2"))
    add_step(pipeline, "t3", "Count", reads={"in": "lines"}, writes={"out": "counts"})
    add_step(pipeline, "t4", "Write", reads={"in": "counts"})
    add_step(pipeline, "root", "", parts=("t0", "t3", "t4"))
    return pipeline


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def count(collection: str, value: int) -> MetricCell:
    return MetricCell(
        "beam:metric:element_count:v1",
        "beam:metrics:sum_int64:v1",
        varint(value),
        {"PCOLLECTION": collection},
    )


def wall(step: str, msecs: int) -> MetricCell:
    return MetricCell(
        "beam:metric:ptransform_execution_time:total_msecs:v1",
        "beam:metrics:sum_int64:v1",
        varint(msecs),
        {"PTRANSFORM": step},
    )


def user(step: str, name: str, value: int) -> MetricCell:
    return MetricCell(
        "beam:metric:user:sum_int64:v1",
        "beam:metrics:sum_int64:v1",
        varint(value),
        {"PTRANSFORM": step, "NAMESPACE": "mine", "NAME": name},
    )


def stage(key: str, name: str, field: str, value: int) -> MetricCell:
    return MetricCell(
        f"beam_spark:stage:{field}:v1",
        "beam:metrics:latest_int64:v1",
        varint(1_700_000_000_000) + varint(value),
        {"STAGE": key, "PTRANSFORM": name},
    )


def waits(key: str, step: str, giver: str) -> Wait:
    """Returns the wait of a step for its side input."""
    return Wait(WaitKind.SIDE_INPUT, key, (step,), side_input=f"{step}:in", givers=(giver,))


class Observed(Job):
    """A job with the observations of a `JobObserver`, which the test sets."""

    def __init__(self, spec: JobSpec, reporter: JobReporter) -> None:
        super().__init__(spec, reporter)
        self.runs = Execution()
        self.past: tuple[StageTimeSeries, ...] = ()
        self.threads: tuple[ThreadStack, ...] = ()

    def get_execution(self) -> Execution:
        return self.runs

    def get_stage_series(self) -> tuple[StageTimeSeries, ...]:
        return self.past

    def get_stacks(self) -> tuple[ThreadStack, ...]:
        return self.threads


def bundle(
    number: int, seconds: float, still: float, where: BundleProcessKind = BundleProcessKind.PROCESS
) -> ObservedBundle:
    return ObservedBundle("s", number, 1, ("Count",), "node", 47, seconds, still, 0.4, where)


def causes(web: TestClient, job: Any) -> list[tuple[str, str]]:
    """Returns the weight and text of each sentence."""
    return [(one["weight"], one["text"]) for one in all_causes(web, job)]


def kinds(web: TestClient, job: Any) -> list[str]:
    """Returns the kind of each sentence."""
    return [one["kind"] for one in all_causes(web, job)]


def all_causes(web: TestClient, job: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = web.get(f"/api/v1/jobs/{job.id}").json()["causes"]
    return found
