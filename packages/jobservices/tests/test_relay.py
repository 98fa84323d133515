"""Tests of the relay, through which clients without credentials reach a guarded server."""

from __future__ import annotations

import subprocess
import sys
import threading

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from beam_runner_model.jobs import Importance, JobState
from waiting import eventually

from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_jobservices.guard import AccessGuard
from beam_runner_jobservices.relay import Relay, main
from beam_runner_jobservices.server import JobServer

from .fakes import LIMIT, FakeExecutor, run_to_end, threads

TOKEN = "0123456789abcdef-a-secret"


@pytest.fixture
def server(executor: FakeExecutor, tmp_path):
    guard = AccessGuard(token=TOKEN)
    with JobServer(executor, artifacts_dir=tmp_path / "artifacts", port=0, guard=guard) as running:
        yield running


@pytest.fixture
def relay(server):
    with Relay(server.address, Credentials(token=TOKEN)) as running:
        yield running


def test_relay_lets_beam_client_submit_stage_and_follow(relay, executor):
    def run(fake):
        fake.reporter.report_state(JobState.RUNNING)
        fake.reporter.report_message(Importance.WARNING, "half of it is done")
        fake.reporter.report_state(JobState.DONE)

    executor.on_start = run
    flags = ["--runner=PortableRunner", f"--job_endpoint={relay.address}", "--save_main_session"]
    pipeline = beam.Pipeline(options=PipelineOptions([*flags, "--environment_type=DOCKER"]))
    _ = pipeline | beam.Create([1])
    assert pipeline.run().wait_until_finish() == "DONE"
    (artifacts,) = executor.jobs[0].spec.artifacts.values()
    assert artifacts


def test_relay_forwards_refusals_unchanged(relay, pipeline):
    with JobClient(relay.address, timeout=LIMIT) as client:
        with pytest.raises(JobApiError, match="no job 'x' on this server") as refused:
            client.get_state("x")
        assert refused.value.code == "NOT_FOUND"
        with pytest.raises(JobApiError, match="malformed"):
            client.prepare_job(b"\x0a\x04\x0a\x02\x0a\x00")


def test_relay_without_valid_token_forwards_no_call(server):
    with Relay(server.address, Credentials(token=TOKEN + "x")) as relay:
        with (
            JobClient(relay.address, timeout=LIMIT) as client,
            pytest.raises(JobApiError) as refused,
        ):
            client.list_jobs()
        assert refused.value.code == "UNAUTHENTICATED"


def test_relay_closes_streams_of_disconnected_client(relay, executor, pipeline):
    with JobClient(relay.address, timeout=LIMIT) as client:
        job_id = client.submit_job(pipeline)
        stream = client.follow_states(job_id)
        assert next(stream).state is JobState.STARTING
        assert threads("beam-job-relay") > 0
    assert eventually(lambda: threads("beam-job-relay") == 0)
    assert eventually(lambda: threads("beam-job-api") == 0)


def test_relay_command_forwards_calls(server, executor, pipeline, tmp_path):
    executor.on_start = run_to_end
    (tmp_path / "token").write_text(TOKEN)
    flags = ["--to", server.address, "--port", "0", "--token-file", str(tmp_path / "token")]
    process = subprocess.Popen(
        [sys.executable, "-m", "beam_runner_jobservices.relay", *flags],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        stuck = threading.Timer(LIMIT, process.kill)
        stuck.start()
        said = process.stdout.readline()
        stuck.cancel()
        with JobClient(said.split()[1], timeout=LIMIT) as client:
            assert client.wait_until_finish(client.submit_job(pipeline), LIMIT) is JobState.DONE
    finally:
        process.kill()
        process.communicate()


def test_relay_command_with_unreadable_token_prints_one_sentence(tmp_path, capsys):
    assert main(["--to", "x:1", "--port", "0", "--token-file", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == f"Can't read {tmp_path}/none: No such file or directory\n"
