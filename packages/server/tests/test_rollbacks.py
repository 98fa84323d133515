"""Tests of the pipeline options of a rollback."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from beam_runner_jobservices.errors import JobRejected
from beam_runner_model.jobs import JobInfo, JobSpec, JobState
from beam_runner_model.successions import RollbackRequest
from beam_runner_runtime.update_options import UpdateOptions, parse_update_options

from beam_runner_server.rollbacks import plan_rollback


def options_of(**values: Any) -> dict[str, Any]:
    return {f"beam:option:{name}:v1": value for name, value in values.items()}


def make_running_job(**values: Any) -> JobInfo:
    return JobInfo("job-2", "orders", JobState.RUNNING, options_of(update=True, **values))


def make_replaced_job(pool: str = "", **values: Any) -> JobSpec:
    pipeline = beam.Pipeline(options=PipelineOptions())
    _ = pipeline | beam.Impulse()
    proto = pipeline.to_runner_api()
    for environment in proto.components.environments.values():
        payload = beam_runner_api_pb2.ExternalPayload()
        payload.endpoint.url = pool
        environment.urn = "beam:env:external:v1"
        environment.payload = payload.SerializeToString()
    options = options_of(**values)
    return JobSpec(
        "job-1", "orders", proto.SerializeToString(), options, json.dumps(options), {}, ""
    )


def plan(running: JobInfo, request: RollbackRequest | None = None) -> UpdateOptions:
    found = plan_rollback(running, make_replaced_job(), request or RollbackRequest())
    parsed = parse_update_options(found)
    assert parsed is not None
    assert (parsed.job_id, parsed.rollback_to) == ("job-2", "job-1")
    return parsed


def test_rollback_reverses_name_mapping_of_update() -> None:
    running = make_running_job(transform_name_mapping={"Sums": "Totals", "Gone": "", "a/b": "c/d"})
    assert plan(running).wishes.mapping == {"Totals": "Sums", "c/d": "a/b"}


def test_rollback_keeps_the_number_of_key_shards_of_the_running_job() -> None:
    replaced = make_replaced_job(beam_spark_key_shards="4", beam_spark_task_attempts="2")
    found = plan_rollback(make_running_job(), replaced, RollbackRequest())
    assert "beam:option:beam_spark_key_shards:v1" not in found
    assert found["beam:option:beam_spark_task_attempts:v1"] == "2"


def test_name_mapping_in_rollback_request_replaces_reversed_mapping() -> None:
    running = make_running_job(transform_name_mapping={"Sums": "Totals"})
    found = plan(running, RollbackRequest({"Totals": "All"}, ("x",), ("y",), "2s", True))
    assert found.wishes.mapping == {"Totals": "All"}
    assert (found.wishes.drop, found.wishes.trust) == ({"x"}, {"y"})
    assert (found.quiet_seconds, found.is_check) == (2.0, True)


def test_rollback_of_name_mapping_that_cannot_be_reversed_is_refused() -> None:
    running = make_running_job(transform_name_mapping={"a": "c", "b": "c"})
    with pytest.raises(JobRejected, match="several steps to 'c'"):
        plan(running)


@pytest.mark.parametrize("request_", [RollbackRequest(quiet="soon"), RollbackRequest(drop=("",))])
def test_invalid_option_of_a_rollback_is_refused(request_: RollbackRequest) -> None:
    with pytest.raises(JobRejected, match="--beam_spark_update_"):
        plan(make_running_job(), request_)


def test_loopback_program_that_has_ended_is_refused_by_its_address() -> None:
    with socket.socket() as taken:
        taken.bind(("localhost", 0))  # Nothing listens at this port.
        pool = f"localhost:{taken.getsockname()[1]}"
        replaced = make_replaced_job(pool, environment_type="LOOPBACK")
        with pytest.raises(JobRejected, match=f"LOOPBACK.*{pool} isn't reachable"):
            plan_rollback(make_running_job(), replaced, RollbackRequest())
        # The pools of other environments can be on another network.
        external = make_replaced_job(pool, environment_type="EXTERNAL")
        assert plan_rollback(make_running_job(), external, RollbackRequest())


def test_loopback_program_that_runs_is_accepted() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    pool = f"localhost:{server.add_insecure_port('localhost:0')}"
    server.start()
    try:
        replaced = make_replaced_job(pool, environment_type="LOOPBACK")
        assert plan_rollback(make_running_job(), replaced, RollbackRequest())
    finally:
        server.stop(None)
