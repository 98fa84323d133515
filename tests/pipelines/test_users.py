"""Tests of jobs that wait for the quota of their user on a server that is killed."""

from __future__ import annotations

import time
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.transforms.environments import EmbeddedPythonEnvironment
from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.jobs import JobState
from server_lives import server_lives
from waiting import wait_until

SECONDS = 240.0
TOKEN = "the token of ann"
USERS = f"""
[users.ann]
token = "{TOKEN}"
rights = ["submit", "read", "cancel"]
running_jobs = 1
waiting_jobs = 2
"""


def make_pipeline(number: int, folder: Path) -> bytes:
    """Returns a pipeline that begins, waits for a permission, and then writes its number."""

    def note(given: int) -> None:
        (folder / f"begun-{given}").touch()
        while not (folder / "go on").exists():
            time.sleep(0.05)
        with (folder / "order").open("a") as file:
            file.write(f"{given}\n")

    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([number]) | beam.Map(note)
    environment = EmbeddedPythonEnvironment.default()
    proto = pipeline.to_runner_api(default_environment=environment)
    return bytes(proto.SerializeToString())


def test_waiting_jobs_of_a_user_survive_a_killed_server(
    tmp_path: Path, placement: tuple[str, ...]
) -> None:
    (tmp_path / "users.toml").write_text(USERS)
    # Without pages, the server has no folder for a socket, which `server_lives` would count.
    flags = (*placement, f"--users-file={tmp_path / 'users.toml'}", "--serve-http=false")
    with (
        server_lives(tmp_path / "state", flags) as lives,
        JobClient(lives.address, credentials=Credentials(token=TOKEN)) as client,
    ):
        jobs = [client.submit_job(make_pipeline(number, tmp_path)) for number in range(3)]
        wait_until((tmp_path / "begun-0").exists, SECONDS, "the first job begins")
        with pytest.raises(JobApiError, match="'ann'") as refused:
            client.submit_job(make_pipeline(3, tmp_path))
        assert refused.value.code == "RESOURCE_EXHAUSTED"
        lives.kill_server_process()
        lives.start_next_process()
        assert [client.get_state(job).state for job in jobs[1:]] == [JobState.STOPPED] * 2
        assert [one.user for one in client.get_job_times()] == ["ann"] * 3
        assert not (tmp_path / "begun-1").exists()
        (tmp_path / "go on").touch()
        for job in jobs:
            assert client.wait_until_finish(job, SECONDS) is JobState.DONE
    assert (tmp_path / "order").read_text().split() == ["0", "1", "2"]
