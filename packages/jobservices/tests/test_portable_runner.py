"""Tests of Beam's unchanged Python client against the server."""

from __future__ import annotations

import logging
import threading
import time

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from beam_runner_model.jobs import (
    Importance,
    JobMetrics,
    JobState,
    MetricCell,
    OptionType,
    PipelineOption,
)

from beam_runner_jobservices._protos import beam_runner_api_pb2 as runner_api
from beam_runner_jobservices.errors import JobRejected
from beam_runner_jobservices.server import JobServer

from .fakes import FakeExecutor, run_to_end

RUNNER_OPTION = PipelineOption("key_shards", OptionType.INTEGER, "Shards per key space.")


@pytest.fixture
def server(executor: FakeExecutor, tmp_path):
    with JobServer(
        executor, artifacts_dir=tmp_path / "artifacts", port=0, options=(RUNNER_OPTION,)
    ) as running:
        yield running


def build(server, *flags):
    options = PipelineOptions(
        [
            "--runner=PortableRunner",
            f"--job_endpoint={server.address}",
            "--environment_type=DOCKER",
            *flags,
        ]
    )
    pipeline = beam.Pipeline(options=options)
    _ = pipeline | "Make" >> beam.Create([1, 2, 3]) | "Double" >> beam.Map(lambda x: 2 * x)
    return pipeline


def test_portable_runner_prepares_stages_and_runs_pipeline(server, executor):
    executor.on_start = run_to_end
    flags = ["--job_name=My Words", "--save_main_session", "--key_shards=7"]
    result = build(server, *flags).run()
    assert result.wait_until_finish() == "DONE"
    spec = executor.jobs[0].spec
    assert spec.job_name == "My Words"
    assert spec.options["beam:option:key_shards:v1"] == "7"
    (artifacts,) = spec.artifacts.values()
    names = {artifact.staged_name for artifact in artifacts}
    assert "pickled_main_session" in names
    proto = runner_api.Pipeline.FromString(spec.pipeline)
    assert any("Double" in item.unique_name for item in proto.components.transforms.values())
    for environment in proto.components.environments.values():
        for information in environment.dependencies:
            assert information.type_urn == "beam:artifact:type:file:v1"


def test_portable_runner_logs_messages_of_job(server, executor, caplog):
    def run(fake):
        fake.reporter.report_state(JobState.RUNNING)
        fake.reporter.report_message(Importance.WARNING, "half of it is done", "Double")
        fake.reporter.report_state(JobState.DONE)

    executor.on_start = run
    with caplog.at_level(logging.INFO):
        build(server).run().wait_until_finish()
    assert "[Double] half of it is done" in caplog.text


def test_portable_runner_raises_failure_reason(server, executor):
    def run(fake):
        fake.reporter.report_state(JobState.RUNNING)
        fake.reporter.report_message(Importance.ERROR, "a symptom")
        fake.reporter.report_state(JobState.FAILED, "transform 'Double': ValueError: no\ntraceback")

    executor.on_start = run
    result = build(server).run()
    with pytest.raises(RuntimeError, match="transform 'Double': ValueError: no\ntraceback"):
        result.wait_until_finish()


def test_portable_runner_raises_rejection_reason(server, executor):
    def reject(fake):
        raise JobRejected("transform 'Double' uses timers, which are not supported")

    executor.on_start = reject
    with pytest.raises(grpc.RpcError, match="transform 'Double' uses timers") as raised:
        build(server).run()
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_portable_runner_cancels_job(server, executor):
    result = build(server).run()
    result.cancel()
    with pytest.raises(RuntimeError, match="CANCELLED"):
        result.wait_until_finish()
    assert executor.jobs[0].cancels == 1


def test_portable_runner_returns_metrics_of_job(server, executor):
    labels = {"PTRANSFORM": "Double", "NAMESPACE": "mine", "NAME": "words"}
    info = MetricCell("beam:metric:user:sum_int64:v1", "beam:metrics:sum_int64:v1", b"\x2a", labels)

    def run(fake):
        fake.reported_metrics = JobMetrics(attempted=(info,), committed=(info,))
        run_to_end(fake)

    executor.on_start = run
    result = build(server).run()
    result.wait_until_finish()
    (counter,) = result.metrics().query()["counters"]
    assert (counter.attempted, counter.committed) == (42, 42)


def test_portable_runner_job_outlasts_client_timeout(server, executor):
    def run(fake):
        fake.reporter.report_state(JobState.RUNNING)
        timer = threading.Timer(2.5, fake.reporter.report_state, [JobState.DONE])
        timer.start()

    executor.on_start = run
    started = time.monotonic()
    assert build(server, "--job_server_timeout=1").run().wait_until_finish() == "DONE"
    assert time.monotonic() - started >= 2.5


def test_portable_runner_accepts_empty_pipeline(server, executor):
    executor.on_start = run_to_end
    options = PipelineOptions(
        [
            "--runner=PortableRunner",
            f"--job_endpoint={server.address}",
            "--environment_type=DOCKER",
        ]
    )
    assert beam.Pipeline(options=options).run().wait_until_finish() == "DONE"
