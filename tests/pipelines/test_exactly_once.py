"""Sinks that write exactly once: each environment, windows, outages of a sink, and conflicts."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_spark_io import WriteExactlyOnce, WriteFilesExactlyOnce, WriteToSql
from beam_spark_io.exactly_once.protocols import (
    CommitId,
    CommitMark,
    SinkUnavailable,
    is_committed,
)
from beam_spark_io.files.sink import FileSink, name_window
from failing_streams import NumberSource
from jobs import Pipelines
from waiting import wait_until

pytestmark = pytest.mark.timeout(180)
NUMBERS = range(100)
PATIENCE = 0.5


@pytest.mark.slow_in("PROCESS")
def test_exactly_once_sinks_write_each_row_and_file_once(
    everywhere: Pipelines, tmp_path: Path
) -> None:
    file = tmp_path / "numbers.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE numbers (number INTEGER, half REAL)")
    connect = partial(sqlite3.connect, file, timeout=60)
    folder = tmp_path / "files"
    with everywhere.new() as p:
        rows = p | beam.Create([{"number": n, "half": n / 2} for n in NUMBERS])
        written = rows | WriteToSql(connect, "sqlite", "numbers", ["number", "half"], shards=2)
        named = rows | WriteFilesExactlyOnce(str(folder), "jsonl", every=1, by_window=True)
        total = written | beam.Map(lambda one: one.result) | beam.CombineGlobally(sum)
        assert_that(total, equal_to([len(NUMBERS)]), label="rows")
        exists = named | beam.Map(lambda one: (folder / one.result).exists())
        assert_that(exists, equal_to([True, True]), label="files")
    with sqlite3.connect(file) as connection:
        found = connection.execute("SELECT number FROM numbers").fetchall()
    assert sorted(n for (n,) in found) == list(NUMBERS)
    (one,) = folder.glob("all/[!_]*")
    assert (folder / "all" / "_SUCCESS").exists()
    lines = [json.loads(line) for line in one.read_text().splitlines()]
    assert sorted(line["number"] for line in lines) == list(NUMBERS)


class AwaySink(FileSink):
    """Sink of files that is unavailable until a file exists, and records the time of each call."""

    def __init__(self, folder: Path, back: Path) -> None:
        super().__init__(str(folder), "jsonl", 2)
        self._back = back

    def create_committer(self, run: str, shard: int) -> Any:
        if not self._back.exists():
            with self._back.with_suffix(".calls").open("a") as calls:
                calls.write(f"{time.time()}\n")
            raise SinkUnavailable("the folder is away")
        return super().create_committer(run, shard)


def read_calls(back: Path) -> list[float]:
    file = back.with_suffix(".calls")
    return list(map(float, file.read_text().split())) if file.exists() else []


def test_stream_waits_for_unavailable_sink_and_completes_each_window_after_its_files(
    embedded: Pipelines, tmp_path: Path
) -> None:
    back, folder = tmp_path / "back", tmp_path / "files"
    pipeline = embedded.new("--streaming")
    _ = (
        pipeline
        | beam.Create([60])
        | beam.ParDo(NumberSource())
        | beam.Map(lambda number: {"number": number})
        | beam.WindowInto(FixedWindows(20))
        | WriteExactlyOnce(
            AwaySink(folder, back), every=1, patience=PATIENCE, name_window=name_window
        )
    )
    job = embedded.job(pipeline)
    wait_until(
        lambda: (calls := read_calls(back)) and calls[-1] - calls[0] > 2 * PATIENCE,
        60,
        "the commits have waited for longer than their patience",
    )
    with JobClient(job.address) as client:
        assert client.get_execution(job.job_id).failed == ()
    assert not folder.exists()
    back.touch()
    assert job.wait() is JobState.DONE
    assert not any("failed" in message.text for message in job.messages())
    windows = sorted(folder.glob("[!_]*"))
    assert [window.name for window in windows] == [
        f"19700101T0000{start:02}Z-19700101T00{end}Z"
        for start, end in ((0, "0020"), (20, "0040"), (40, "0100"))
    ]
    for place, window in enumerate(windows):
        files = [file for file in window.iterdir() if file.suffix == ".jsonl"]
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        numbers = sorted(line["number"] for line in lines)
        assert numbers == list(range(20 * place, 20 * place + 20))
        success = (window / "_SUCCESS").stat()
        assert success.st_size == 0
        assert all(file.stat().st_mtime_ns <= success.st_mtime_ns for file in files)


def at(second: float) -> TimestampedValue:
    return TimestampedValue({"second": second}, second)


@pytest.mark.parametrize("every", [None, 1])
def test_late_element_is_written_before_success_and_later_element_is_dropped(
    embedded: Pipelines, tmp_path: Path, every: int | None
) -> None:
    """With a trigger by time, the late element waits until its window expires."""
    events = Stream().add_elements([at(1)]).advance_watermark_to(12)
    events = events.add_elements([at(2)]).advance_watermark_to(19)
    events = events.add_elements([at(3)]).advance_watermark_to(21)
    events = events.add_elements([at(4), at(25)]).advance_watermark_to_infinity()
    folder = tmp_path / "files"
    with embedded.new("--streaming") as pipeline:
        _ = (
            pipeline
            | events
            | beam.WindowInto(FixedWindows(10), allowed_lateness=10)
            | WriteFilesExactlyOnce(str(folder), "jsonl", every=every, by_window=True)
        )
    first, second = sorted(folder.glob("[!_]*"))
    assert read_seconds(first) == [1, 2, 3]
    assert read_seconds(second) == [25]
    for window in (first, second):
        newest = max(window.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        assert newest.name == "_SUCCESS"


def read_seconds(window: Path) -> list[float]:
    lines = [line for file in window.glob("*.jsonl") for line in file.read_text().splitlines()]
    return sorted(json.loads(line)["second"] for line in lines)


def test_bounded_job_fails_with_the_error_of_an_unavailable_sink(
    embedded: Pipelines, tmp_path: Path
) -> None:
    pipeline = embedded.new()
    sink = AwaySink(tmp_path / "files", tmp_path / "back")
    _ = pipeline | beam.Create([{"number": 1}]) | WriteExactlyOnce(sink, patience=PATIENCE)
    job = embedded.job(pipeline)
    assert job.wait() is JobState.FAILED
    calls = read_calls(tmp_path / "back")
    assert calls[-1] - calls[0] >= PATIENCE
    assert "SinkUnavailable: the folder is away" in job.messages()[-1].text


class ConflictSink(FileSink):
    """Sink whose commit mark contains the digest of other elements."""

    def create_committer(self, run: str, shard: int) -> Any:
        return ConflictCommitter()


class ConflictCommitter:
    """Committer that finds another digest."""

    def commit(self, commit_id: CommitId, elements: Sequence[Any]) -> Any:
        return is_committed(commit_id, CommitMark(commit_id.number, b"other"))

    def close(self) -> None:
        """Does nothing."""


@pytest.mark.slow_in("LOOPBACK")
def test_conflict_of_a_sink_fails_a_stream_at_the_first_attempt(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    pipeline = pipelines.new("--streaming", "--beam_spark_task_attempts=3")
    numbers = pipeline | beam.Create([60]) | beam.ParDo(NumberSource())
    _ = numbers | WriteExactlyOnce(ConflictSink(str(tmp_path), "jsonl", 1))
    job = pipelines.job(pipeline)
    assert job.wait() is JobState.FAILED
    last = job.messages()[-1].text
    assert "CommitConflict: commit 1 of run" in last
    assert "has other elements than the commit with this number" in last
    assert not any("retried" in message.text for message in job.messages())
