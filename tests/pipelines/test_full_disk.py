"""A state folder whose disk is full: the job says so, and the server goes on."""

from __future__ import annotations

import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_jobservices import JobState
from job_server import job_server, wait_until
from jobs import Pipelines

ROOM = "40m"
MEGABYTE = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with little room."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a disk can't be made here: {error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def pipelines(small_disk: Path, placement: tuple[str, ...]) -> Iterator[Pipelines]:
    """Pipelines of a server whose state is on the small disk."""
    with (
        tempfile.TemporaryDirectory(prefix="t") as temporary,
        job_server(Path(temporary), f"--state-dir={small_disk}", *placement) as server,
    ):
        yield Pipelines(server.address, "embedded", [])


def megabyte(number: int) -> bytes:
    """Nothing that can be compressed."""
    return random.Random(number).randbytes(MEGABYTE)


def shuffle(pipeline: beam.Pipeline, megabytes: int) -> None:
    """Has so much written to the disk, at least."""
    made = pipeline | beam.Create(range(megabytes)) | beam.Reshuffle() | beam.Map(megabyte)
    count = made | "again" >> beam.Reshuffle() | beam.combiners.Count.Globally()
    assert_that(count, equal_to([megabytes]))


def test_a_full_disk_fails_the_job_and_not_the_server(
    pipelines: Pipelines, small_disk: Path
) -> None:
    too_much = pipelines.new()
    shuffle(too_much, 100)
    job = pipelines.job(too_much)
    assert job.wait() is JobState.FAILED
    texts = [message.text for message in job.messages()]
    assert any("No space left" in text or "disk is full" in text for text in texts), texts
    jobs = small_disk / "jobs"
    wait_until(lambda: not list(jobs.iterdir()), 30, "what the job wrote is removed")
    enough = pipelines.new()
    shuffle(enough, 5)
    assert pipelines.job(enough).wait() is JobState.DONE
