"""A full disk of the state folder: the job reports it, and the server serves the next job."""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_jobservices import JobClient, JobState
from job_server import job_server, wait_until
from jobs import Pipelines

MEGABYTE = 1 << 20
ROOM_MEGABYTES = 60
BALLAST_MEGABYTES = 50
MEGABYTES = 15
KEYS = 7
SECONDS = 120.0
DISK_IS_FULL = re.compile("[Nn]o space left|disk is full")
"""What the operating system says, and SQLite."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with little room."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM_MEGABYTES}m", "tmpfs", str(folder)]
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


@pytest.fixture
def ballast(small_disk: Path, pipelines: Pipelines) -> Path:
    """A file of the running server's disk that leaves less room than the job of the test needs."""
    file = small_disk / "ballast"
    file.write_bytes(bytes(BALLAST_MEGABYTES * MEGABYTE))
    return file


def megabyte(number: int) -> tuple[int, tuple[int, bytes]]:
    """Returns an incompressible value with its key."""
    return number % KEYS, (number, random.Random(number).randbytes(MEGABYTE))


def group(pipeline: beam.Pipeline, megabytes: int) -> None:
    """Adds a grouping that has all of its input on the disk before it begins."""
    groups = (
        pipeline
        | beam.Create(range(megabytes))
        | beam.Reshuffle()
        | beam.Map(megabyte)
        | beam.GroupByKey()
        | beam.MapTuple(lambda key, values: (key, sorted(number for number, _ in values)))
    )
    expected = [(key, list(range(key, megabytes, KEYS))) for key in range(KEYS)]
    assert_that(groups, equal_to(expected))


def test_job_on_a_full_disk_is_exact_or_fails_by_the_disk(
    pipelines: Pipelines, small_disk: Path, ballast: Path
) -> None:
    too_much = pipelines.new()
    group(too_much, MEGABYTES)
    job = pipelines.job(too_much)
    with JobClient(pipelines.address) as client:
        # The messages end with the job, so the job may also have failed before there is room.
        texts = []
        for message in client.messages(job.job_id, SECONDS):
            texts.append(getattr(message, "text", ""))
            if DISK_IS_FULL.search(texts[-1]):
                break
    assert DISK_IS_FULL.search(texts[-1]), texts
    ballast.unlink()
    assert job.wait() in (JobState.DONE, JobState.FAILED)
    jobs = small_disk / "jobs"
    wait_until(lambda: not list(jobs.iterdir()), SECONDS, "the files of the job are removed")
    again = pipelines.new()
    group(again, MEGABYTES)
    assert pipelines.job(again).wait() is JobState.DONE
