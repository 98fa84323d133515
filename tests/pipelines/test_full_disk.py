"""Tests of a full disk of the state folder: a bounded job waits for a limited time, and a stream without a limit."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_runner_storage.stores.probe import MARK
from failing_streams import COUNT, NumberSource, check_ordinals, count_by_key
from job_server import job_server
from jobs import Pipelines
from waiting import wait_until

ROOM = "40m"
MEGABYTE = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yields a folder with little free space."""
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
    """Yields pipelines of a server whose state is on the small disk."""
    with (
        tempfile.TemporaryDirectory(prefix="t") as temporary,
        job_server(
            Path(temporary), f"--state-dir={small_disk}", "--outage-limit=5s", *placement
        ) as server,
    ):
        yield Pipelines(server.address, "embedded", [])


def megabyte(number: int) -> bytes:
    """Returns a megabyte of incompressible data."""
    return random.Random(number).randbytes(MEGABYTE)


def shuffle(pipeline: beam.Pipeline, megabytes: int) -> None:
    """Writes at least this much to the disk."""
    made = pipeline | beam.Create(range(megabytes)) | beam.Reshuffle() | beam.Map(megabyte)
    count = made | "again" >> beam.Reshuffle() | beam.combiners.Count.Globally()
    assert_that(count, equal_to([megabytes]))


def group(pipeline: beam.Pipeline, megabytes: int) -> None:
    """Builds a grouping that needs this much disk space at a time, because a group is read completely."""
    made = pipeline | beam.Create(range(megabytes)) | beam.Reshuffle() | beam.Map(megabyte)
    groups = made | beam.WithKeys(None) | beam.GroupByKey()
    groups | beam.MapTuple(lambda _, values: sum(map(len, values)))


def test_permanently_full_disk_fails_a_bounded_job_and_not_the_server(
    pipelines: Pipelines, small_disk: Path
) -> None:
    too_much = pipelines.new()
    group(too_much, 100)
    job = pipelines.job(too_much)
    assert job.wait() is JobState.FAILED
    texts = [message.text for message in job.messages()]
    assert any("No space left" in text or "disk is full" in text for text in texts), texts
    assert any("the disk of " in text and "is unavailable" in text for text in texts), texts
    jobs = small_disk / "jobs"
    wait_until(lambda: os.listdir(jobs) == [MARK], 30, "what the job wrote is removed")
    enough = pipelines.new()
    shuffle(enough, 5)
    assert pipelines.job(enough).wait() is JobState.DONE


def fill(disk: Path) -> Path:
    """Fills a disk; returns the file that does."""
    balloon = disk / "balloon"
    with balloon.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(MEGABYTE // 16))
    return balloon


def test_stream_with_a_temporarily_full_disk_gives_exact_results(
    pipelines: Pipelines, small_disk: Path, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    pipeline = pipelines.new("--streaming")
    numbers = (
        pipeline | beam.Create([COUNT]) | beam.ParDo(NumberSource(wait_at=COUNT // 4, file=go_on))
    )
    assert_that(count_by_key(numbers), check_ordinals)
    job = pipelines.job(pipeline)
    job.wait_for(JobState.RUNNING)
    time.sleep(2)
    balloon = fill(small_disk)
    go_on.touch()
    with JobClient(pipelines.address) as client:

        def waits() -> bool:
            now = client.get_execution(job.job_id)
            neighbours = [one.neighbour for one in (*now.waits, *now.failed)]
            return any("the disk of " in one for one in neighbours)

        wait_until(waits, 60, "the job waits for the disk")
    time.sleep(8)  # longer than a bounded job may wait
    assert job.state() is JobState.RUNNING
    balloon.unlink()
    assert job.wait() is JobState.DONE
