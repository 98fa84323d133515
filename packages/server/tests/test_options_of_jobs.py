"""Tests that a client with Beam alone sends job options to the server, because the server describes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from beam_runner_server.flags import ServerSettings
from beam_runner_server.job_server import RunnerServer
from beam_runner_server.plain import PlainProcesses

# A program with Beam alone, without any package of this runner.
CLIENT = """
import sys
import grpc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2_grpc
from apache_beam.runners.portability.portable_runner import JobServiceHandle
service = beam_job_api_pb2_grpc.JobServiceStub(grpc.insecure_channel(sys.argv[1]))
sent = JobServiceHandle(service, PipelineOptions(sys.argv[2:])).get_pipeline_options()
for name in sorted(sent.fields):
    if "beam_spark" in name:
        value = sent.fields[name]
        print(name, value.string_value or [one.string_value for one in value.list_value.values])
"""


@pytest.mark.timeout(120)
def test_beam_client_sends_job_options(tmp_path: Path) -> None:
    served = RunnerServer(
        ServerSettings(job_port=0, state_dir=tmp_path / "state", platform=PlainProcesses(1))
    )
    try:
        flags = (
            "--beam_spark_task_attempts=4",
            "--beam_spark_key_shards=9",
            "--beam_spark_bulk=never",
            "--beam_spark_update_drop=one",
            "--beam_spark_update_drop=two",
            "--beam_spark_update_quiet=3s",
            "--beam_spark_env=A=1",
            "--beam_spark_env=B=2",
        )
        command = [sys.executable, "-c", CLIENT, served.serve(), *flags]
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=100)
    finally:
        served.stop()
    assert told.stdout.splitlines() == [
        "beam:option:beam_spark_bulk:v1 never",
        "beam:option:beam_spark_env:v1 ['A=1', 'B=2']",
        "beam:option:beam_spark_key_shards:v1 9",
        "beam:option:beam_spark_task_attempts:v1 4",
        "beam:option:beam_spark_update_drop:v1 ['one', 'two']",
        "beam:option:beam_spark_update_quiet:v1 3s",
    ]
