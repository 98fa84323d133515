"""Tests that the server survives disconnected clients and malformed requests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import apache_beam as beam
import grpc
import pytest
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.environments import EmbeddedPythonEnvironment
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.jobs import JobState
from job_server import JobServerProcess
from jobs import Pipelines
from waiting import wait_until

CLIENT = """
import sys, time, pathlib
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

begun, go_on, done = map(pathlib.Path, sys.argv[1:4])

def wait(n):
    begun.touch()
    while not go_on.exists():
        time.sleep(0.05)
    done.touch()

p = beam.Pipeline(options=PipelineOptions(sys.argv[4:]))
p | beam.Create([1]) | beam.Map(wait)
p.run().wait_until_finish()
"""


def check_alive(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        assert_that(p | beam.Create([1]) | beam.Reshuffle(), equal_to([1]))


@pytest.mark.parametrize("environment", ["embedded", "LOOPBACK"])
def test_vanished_client_fails_only_its_loopback_job(
    embedded: Pipelines, server: JobServerProcess, tmp_path: Path, environment: str
) -> None:
    """An embedded job continues. A LOOPBACK job has lost its user code, and fails within its limit."""
    (tmp_path / "client.py").write_text(CLIENT)
    begun, go_on, done = (tmp_path / name for name in ("begun", "go-on", "done"))
    flags = ["--runner=PortableRunner", f"--job_endpoint={server.address}"]
    if environment == "LOOPBACK":
        flags.append("--environment_type=LOOPBACK")
    with JobClient(server.address) as client:
        before = {info.job_id for info in client.list_jobs()}
        process = subprocess.Popen(
            [
                sys.executable,
                str(tmp_path / "client.py"),
                str(begun),
                str(go_on),
                str(done),
                *flags,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(begun.exists, 60, "the job is at work")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        (job_id,) = {info.job_id for info in client.list_jobs()} - before
        time.sleep(0.5)
        go_on.touch()
        state = client.wait_until_finish(job_id, 90)
    if environment == "LOOPBACK":
        assert state is JobState.FAILED
    else:
        assert state is JobState.DONE and done.exists()
    server.wait_until_idle()
    check_alive(embedded)


def test_malformed_pipelines_are_refused(embedded: Pipelines, server: JobServerProcess) -> None:
    proto = embedded.new().to_runner_api()
    dangling = type(proto)()
    dangling.CopyFrom(proto)
    dangling.root_transform_ids.append("nowhere")
    with JobClient(server.address) as client, pytest.raises(JobApiError, match="nowhere"):
        client.submit_job(dangling.SerializeToString())
    check_alive(embedded)


def broken_pardo(pipelines: Pipelines, payload: bytes) -> bytes:
    """Returns a pipeline whose ParDo has another payload."""
    pipeline = pipelines.new()
    pipeline | beam.Create([1]) | "Broken" >> beam.Map(str)
    proto = pipeline.to_runner_api(default_environment=EmbeddedPythonEnvironment.default())
    for transform in proto.components.transforms.values():
        if transform.unique_name == "Broken" and transform.spec.payload:
            transform.spec.payload = payload
    for environment in proto.components.environments.values():
        del environment.dependencies[:]
    serialized: bytes = proto.SerializeToString()
    return serialized


def test_payload_that_is_not_a_function_fails_the_job(
    embedded: Pipelines, server: JobServerProcess
) -> None:
    payload = beam_runner_api_pb2.ParDoPayload()
    payload.do_fn.urn = "beam:dofn:pickled_python_info:v1"
    payload.do_fn.payload = b"nonsense"
    with JobClient(server.address) as client:
        job_id = client.submit_job(broken_pardo(embedded, payload.SerializeToString()))
        assert client.wait_until_finish(job_id, 60) is JobState.FAILED
    check_alive(embedded)


def test_malformed_request_bytes_leave_the_server_working(
    embedded: Pipelines, server: JobServerProcess
) -> None:
    host, _, port = server.address.rpartition(":")
    for garbage in (b"GET / HTTP/1.0\r\n\r\n", b"\0" * 1000, os.urandom(5000)):
        with socket.create_connection((host, int(port)), 5) as connection:
            connection.sendall(garbage)
    with grpc.insecure_channel(server.address) as channel:
        service = "/org.apache.beam.model.job_management.v1.JobService"
        for method, message in (("Prepare", b"\xff" * 100), ("Run", b"\x0a\xff"), ("Dance", b"")):
            with pytest.raises(grpc.RpcError):
                channel.unary_unary(f"{service}/{method}")(message, timeout=10)
    check_alive(embedded)
