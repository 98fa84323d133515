"""Tests of the executor behind the real Job API, before the first and after the last worker process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.portable_runner import PortableRunner
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_jobservices.server import JobServer
from beam_runner_model.jobs import JobState
from beam_runner_runtime.channel.stand_by import EndStandBy, StandByOrder
from beam_runner_runtime.sections.ends import TaskCounts
from beam_runner_server.executor import PlacedJobExecutor
from beam_runner_server.executor_settings import ExecutorSettings
from beam_runner_server.job_folders import JobFolders
from beam_runner_storage.journal.store import JournalStore
from beam_runner_storage.stores.spec import StoreSpec


class Idle:
    """Placement (starter of worker processes) for jobs that never need a process."""

    host, cores, slots, interface, loss_message, is_alive = "127.0.0.1", 2, 2, "", "", True

    def set_endpoints(self, endpoints: object) -> None:
        """Does nothing."""

    def get_standby_order(self, number: int) -> StandByOrder:
        """Does nothing."""
        return EndStandBy()

    def create_job_placement(self, job_id: str, name: str) -> Idle:
        return self

    def start_lane(self, number: int, on_end: object) -> None:
        raise AssertionError("no bundle is to run")

    def start_section(self, order: object, work: object, title: str, on_end: object) -> None:
        raise AssertionError("no section is to run")

    def handle_section_message(self, message: object) -> bool:
        return False

    def count_section_tasks(self) -> TaskCounts:
        return TaskCounts()

    def cancel(self) -> None:
        """Does nothing."""

    def close(self, *, workers_gone: bool) -> None:
        """Does nothing."""

    def handle_job_end(self) -> None:
        """Does nothing."""

    def end_standby_processes(self) -> None:
        """Does nothing."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[JobClient]:
    store = JournalStore(tmp_path / "state", durable=False)
    executor = PlacedJobExecutor(
        Idle(),
        store,
        ExecutorSettings(JobFolders(StoreSpec(str(tmp_path / "jobs")), tmp_path / "jobs")),
    )
    server = JobServer(executor, artifacts_dir=tmp_path / "artifacts", host="localhost", port=0)
    address = server.start()
    with JobClient(address) as client:
        yield client
    server.stop(grace=5)
    executor.close(suspend=False)
    store.close()


def proto(build: Any) -> bytes:
    options = PipelineOptions(["--environment_type=beam:env:embedded_python:v1"])
    pipeline = beam.Pipeline(options=options)
    build(pipeline)
    found = PortableRunner.get_proto_pipeline(pipeline, options)
    for environment in found.components.environments.values():
        del environment.dependencies[:]
    serialized: bytes = found.SerializeToString()
    return serialized


def test_empty_job_finishes_and_leaves_no_data(client: JobClient, tmp_path: Path) -> None:
    job_id = client.submit_job(proto(lambda p: None))
    states = [event.state for event in client.follow_states(job_id, 20)]
    assert states[-1] is JobState.DONE
    assert client.get_metrics(job_id).committed == ()
    assert not (tmp_path / "jobs" / job_id).exists()


def test_cancel_of_a_finished_job_has_no_effect(client: JobClient) -> None:
    job_id = client.submit_job(proto(lambda p: None))
    assert client.wait_until_finish(job_id, 20) is JobState.DONE
    client.cancel_job(job_id)
    assert client.get_state(job_id).state is JobState.DONE


def test_unsupported_feature_fails_run_and_is_reported_by_name(client: JobClient) -> None:
    pairs = proto(lambda p: p | beam.Create([("a", 1)]) | "Here" >> beam.GroupByKey())
    changed = beam_runner_api_pb2.Pipeline.FromString(pairs)
    for strategy in changed.components.windowing_strategies.values():
        strategy.accumulation_mode = beam_runner_api_pb2.AccumulationMode.RETRACTING
    pipeline = changed.SerializeToString()
    with pytest.raises(JobApiError, match=r"retractions \(in 'Here'") as raised:
        client.submit_job(pipeline)
    assert raised.value.code == "UNIMPLEMENTED"
    (job,) = client.list_jobs()
    assert job.state is JobState.FAILED
    assert any(
        "Here" in getattr(entry, "text", "") for entry in client.follow_messages(job.job_id, 20)
    )
