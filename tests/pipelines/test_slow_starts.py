"""Tests of SDK harnesses that start slowly: the server waits for a busy harness, and reports an idle harness."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_model.jobs import JobState
from harness_commands import boot_command
from job_server import JobServerProcess, job_server
from jobs import Job, Pipelines

pytestmark = pytest.mark.timeout(600)
SUPPORT = Path(__file__).parents[1] / "support"
BURN = "import time\nwhile time.process_time() < 3: pass"


@pytest.fixture(scope="module")
def impatient(placement: tuple[str, ...]) -> Iterator[JobServerProcess]:
    """Yields a server with a limit of two seconds."""
    environment = {
        "BEAM_RUNNER_IMPORTS": "short_starts",
        "PYTHONPATH": os.pathsep.join((str(SUPPORT), os.environ.get("PYTHONPATH", ""))),
    }
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(Path(folder), *placement, environment=environment) as running,
    ):
        yield running


def run_with(impatient: JobServerProcess, folder: Path, first: str) -> tuple[Job, int]:
    """Runs a job whose harnesses are started by a script with a prelude; returns the job and the number of starts."""
    boot, starts = boot_command(folder), folder / "starts"
    command = folder / "slow-boot"
    command.write_text(f'#!/bin/sh\necho >>{starts}\n{first}\nexec {boot} "$@"\n')
    command.chmod(0o755)
    flags = ["--environment_type=PROCESS", f"--environment_options=process_command={command}"]
    pipelines = Pipelines(impatient.address, "PROCESS", flags)
    pipeline = pipelines.new()
    counts = (
        pipeline
        | beam.Create(range(20))
        | beam.Reshuffle()
        | beam.Map(lambda n: (n % 2, 1))
        | beam.CombinePerKey(sum)
    )
    assert_that(counts, equal_to([(0, 10), (1, 10)]))
    job = pipelines.job(pipeline)
    job.wait()
    return job, len(starts.read_text())


def told(job: Job) -> str:
    return "\n".join(message.text for message in job.messages())


def test_slowly_starting_harness_with_cpu_use_is_awaited(
    impatient: JobServerProcess, tmp_path: Path
) -> None:
    job, starts = run_with(impatient, tmp_path, f"{sys.executable} -c '{BURN}'")
    assert job.state() is JobState.DONE, told(job)
    assert "did not connect" not in told(job)
    assert starts <= (os.cpu_count() or 1), "each lane has started its own, once"


def test_idle_harness_that_does_not_connect_is_reported_by_name(
    impatient: JobServerProcess, tmp_path: Path
) -> None:
    job, _ = run_with(impatient, tmp_path, "echo I wait for something; sleep 600")
    assert job.state() is JobState.FAILED
    text = told(job)
    first = re.search(r"\n?.*it neither ran nor waited for a core or a disk.*", text)
    assert first is not None, text
    assert "slow-boot' has not" in first[0]
    assert "(limit: 2 s)" in first[0]
    assert "I wait for something" in text


def test_exited_harness_is_reported_with_its_exit_code(
    impatient: JobServerProcess, tmp_path: Path
) -> None:
    job, _ = run_with(impatient, tmp_path, "echo there is no python; exit 3")
    assert job.state() is JobState.FAILED
    assert re.search(r"slow-boot' exited with code 3", told(job))
    assert "there is no python" in told(job)
