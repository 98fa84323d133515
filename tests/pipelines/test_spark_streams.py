"""Tests of rows of Spark's streaming sources."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterable
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_spark_io import ReadStreamFromSpark
from jobs import Job, Pipelines
from waiting import wait_until

START = 1_767_225_600
SECONDS = 180.0
"""Limit in seconds: the first query of a Spark takes 30 s on a busy machine."""


EVENTS = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
"""Events with their time after the start, seconds."""


def arrives(folder: Path, ids: Iterable[int]) -> None:
    """Adds a file of events, each at the second that it is named after."""
    folder.mkdir(exist_ok=True)
    numbers = list(ids)
    lines = [
        json.dumps({"id": number, "at": Timestamp(START + number).to_rfc3339()})
        for number in numbers
    ]
    waiting = folder.parent / f"waiting-{numbers[0]}.json"
    waiting.write_text("\n".join(lines))
    waiting.rename(folder / waiting.name)


def events(folder: Path, **more: typing.Any) -> ReadStreamFromSpark:
    """Reads the events of all arriving files."""
    known = {"schema": EVENTS, "timestamp": "at", "poll_seconds": 0.2, **more}
    return ReadStreamFromSpark("json", path=str(folder), **known)


def in_windows(rows: beam.PCollection, out: Path) -> None:
    """Writes the contents of each window of ten seconds when it closes."""

    def write(
        element: tuple[None, Iterable[int]], window: typing.Any = beam.DoFn.WindowParam
    ) -> None:
        begin = int(window.start) - START
        with (out / str(begin)).open("a") as file:
            file.write(f"{sorted(element[1])}\n")

    out.mkdir()
    _ = (
        rows
        | beam.Map(lambda event: (None, event.id))
        | beam.WindowInto(FixedWindows(10))
        | beam.GroupByKey()
        | beam.Map(write)
    )


def windows(out: Path) -> dict[int, list[str]]:
    """Returns the written windows by their start."""
    return {int(path.name): path.read_text().splitlines() for path in out.iterdir()}


def wait_for(job: Job, condition: Callable[[], object], what: str) -> None:
    """Waits for a result of a running job."""
    wait_until(lambda: condition() or job.state().is_terminal, SECONDS, what)
    assert condition(), job.messages()[-3:]


def drained(job: Job) -> None:
    with JobClient(job.address) as client:
        client.drain_job(job.job_id)
    assert job.wait() is JobState.DRAINED


def test_spark_stream_reads_new_files_and_closes_windows_by_a_column(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    arrives(folder, range(5))
    p = pipelines.new()
    in_windows(p | events(folder, max_lateness=3), out)
    job = pipelines.job(p)
    # The watermark is three seconds behind: this does not close the first window, and the row that is late is in it.
    arrives(folder, [12])
    arrives(folder, [9])
    arrives(folder, [13, 14])
    wait_for(job, lambda: 0 in windows(out), "the first window is closed")
    assert windows(out) == {0: ["[0, 1, 2, 3, 4, 9]"]}
    arrives(folder, [25])
    wait_for(job, lambda: 10 in windows(out), "the second window is closed")
    drained(job)
    assert windows(out) == {0: ["[0, 1, 2, 3, 4, 9]"], 10: ["[12, 13, 14]"], 20: ["[25]"]}


def test_spark_stream_without_timestamps_uses_the_clock(
    embedded: Pipelines, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    arrives(folder, [1])
    p = embedded.new()
    rows = p | ReadStreamFromSpark("json", path=str(folder), schema=EVENTS, poll_seconds=0.2)
    out.mkdir()
    _ = (
        rows
        | beam.Map(lambda event: (None, event.id))
        | beam.WindowInto(FixedWindows(1))
        | beam.GroupByKey()
        | beam.Map(lambda pair: (out / str(sorted(pair[1]))).touch())
    )
    job = embedded.job(p)
    wait_for(job, (out / "[1]").exists, "time goes on though nothing comes")
    job.cancel()
    assert job.wait() is JobState.CANCELLED


def test_spark_stream_is_cancelled_immediately(
    embedded: Pipelines, limit: Callable[[float], float]
) -> None:
    p = embedded.new()
    counted = Metrics.counter("test", "counted")
    rows = p | ReadStreamFromSpark("rate", options={"rowsPerSecond": 10}, poll_seconds=0)
    _ = rows | beam.Map(lambda row: counted.inc())
    job = embedded.job(p)
    wait_for(job, lambda: job.counter("counted") > 3, "rows come")
    state, seconds = job.cancel_and_measure()
    assert state is JobState.CANCELLED
    assert seconds < limit(20)


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (ReadStreamFromSpark("jdbc", options={"url": "u", "dbtable": "t"}), "jdbc"),
        (ReadStreamFromSpark("no.such"), "Failed to find the data source: no.such"),
        (ReadStreamFromSpark("rate", timestamp="at"), "the timestamp column 'at' is missing from"),
        (ReadStreamFromSpark("rate", timestamp="value"), "has the Spark type long"),
        (ReadStreamFromSpark("rate", where="other > 1"), "other"),
    ],
    ids=["not a stream", "no format", "no column", "no time", "no condition"],
)
def test_spark_stream_error_names_the_transform(
    embedded: Pipelines, read: ReadStreamFromSpark, said: str
) -> None:
    p = embedded.new()
    _ = p | "It" >> read
    job = embedded.job(p)
    assert job.wait() is JobState.FAILED
    told = job.messages()[-1].text
    assert said in told and "It/Spark" in told
    assert "\tat " not in told
