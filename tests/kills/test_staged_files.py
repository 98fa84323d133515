"""Tests of staged files that are deleted while a stream runs."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from apache_beam.runners.portability.stager import Stager
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from crash_points import check, has_begun, submit
from jobs import Job, Pipelines
from lives import Lives, lives
from victims import ENDLESS, unbounded
from waiting import wait_until

PipelinesOf = Callable[[Lives, str], Pipelines]
FLAGS = "--without-spark=2"


@pytest.fixture(autouse=True)
def staged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages a file with each pipeline, as Beam's client does where pip is installed."""
    name = "submission_environment_dependencies.txt"
    (tmp_path / name).write_text("apache-beam")
    staged = Stager._create_file_stage_to_artifact(str(tmp_path / name), name)
    monkeypatch.setattr(
        Stager, "_create_stage_submission_env_dependencies", lambda folder: [staged]
    )


def begin(pipelines: Pipelines, stop: Path) -> Job:
    """Starts an endless stream, and waits until its user code runs."""
    job = submit(pipelines, unbounded, ENDLESS, stop)
    wait_until(lambda: has_begun(job), 60, "user code runs")
    return job


def kill_workers(running: Lives) -> None:
    for pid in running.victims("worker"):
        os.kill(pid, signal.SIGKILL)


def test_stream_waits_for_missing_folder_of_staged_files_and_continues(
    temporary: Path, tmp_path: Path, pipelines_of: PipelinesOf
) -> None:
    artifacts, stop = tmp_path / "state" / "artifacts" / "sha256", tmp_path / "stop"
    with lives(temporary, tmp_path / "state", FLAGS) as running:
        job = begin(pipelines_of(running, "embedded"), stop)
        aside = artifacts.rename(tmp_path / "aside")
        kill_workers(running)
        wait_until(lambda: f"waits for the folder {artifacts}" in read_warning(job), 60)
        assert job.state() is JobState.RUNNING
        assert not any("Traceback" in line for line in running.server.log)
        aside.rename(artifacts)
        stop.touch()
        check(job)


def read_warning(job: Job) -> str:
    with JobClient(job.address) as client:
        warning = client.get_errors(job.job_id).last_warning
    return "" if warning is None else warning.text


@pytest.mark.parametrize("environment", ["embedded", "PROCESS"])
def test_stream_with_deleted_staged_file_fails_in_one_sentence(
    temporary: Path, tmp_path: Path, pipelines_of: PipelinesOf, environment: str
) -> None:
    artifacts = tmp_path / "state" / "artifacts" / "sha256"
    with lives(temporary, tmp_path / "state", FLAGS) as running:
        job = begin(pipelines_of(running, environment), tmp_path / "never")
        for folder in artifacts.iterdir():
            shutil.rmtree(folder)
        kill_workers(running)
        assert job.wait(90) is JobState.FAILED
        told = [message.text for message in job.messages()]
        assert any(
            f"the staged file {artifacts}/" in text and "is missing, so no new worker" in text
            for text in told
        ), told
        assert not any("Traceback" in line for line in running.server.log)
