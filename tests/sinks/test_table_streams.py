"""Tests that a stream of a table's versions writes each row once to another table, even if processes are killed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from beam_spark_io import (
    ReadStreamFromDelta,
    ReadStreamFromIceberg,
    WriteToDelta,
    WriteToIceberg,
)
from beam_spark_io.iceberg.table import load_table
from deltalake import DeltaTable, write_deltalake
from disturbances import disturb, drain
from jobs import Pipelines
from lives import lives
from pyiceberg.catalog import load_catalog
from tables_under_test import make_catalog
from waiting import wait_until

pytestmark = pytest.mark.timeout(900)
COLUMNS = pa.schema([pa.field("number", pa.int64(), False), pa.field("shop", pa.string(), False)])
_WAIT = 300
_STEP = 5
"""Rows of a version. The stream starts after the first version."""


def make_rows(first: int) -> pa.Table:
    numbers = range(first, first + _STEP)
    rows = [{"number": number, "shop": "ab"[number % 2]} for number in numbers]
    return pa.Table.from_pylist(rows, COLUMNS)


@attrs.frozen
class StreamUnderTest:
    """Stream from a table into another one.

    Attributes:
        append: appends rows to the first table as a version.
        read: the read of the first table.
        write: the write into the second table.
        read_target: returns the rows of the second table.
    """

    append: Callable[[pa.Table], Any]
    read: Any
    write: Any
    read_target: Callable[[], pa.Table]


def make_delta_stream(folder: Path) -> StreamUnderTest:
    source, target = (str(folder / name) for name in ("source", "target"))
    for table in (source, target):
        DeltaTable.create(table, COLUMNS, partition_by=["shop"])
    write_deltalake(source, make_rows(0), mode="append")
    return StreamUnderTest(
        lambda rows: write_deltalake(source, rows, mode="append"),
        ReadStreamFromDelta(source, first_version=2, poll_seconds=0.2),
        WriteToDelta(target, schema=COLUMNS, every=1),
        lambda: DeltaTable(target).to_pyarrow_table(),
    )


def make_iceberg_stream(folder: Path) -> StreamUnderTest:
    catalog = make_catalog(folder)
    loaded = load_catalog("beam", **catalog)
    loaded.create_namespace("tests")
    for name in ("source", "target"):
        with loaded.create_table(f"tests.{name}", COLUMNS).update_spec() as spec:
            spec.add_identity("shop")
    source = load_table("tests.source", catalog)
    source.append(make_rows(0))
    first = source.current_snapshot().snapshot_id
    return StreamUnderTest(
        lambda rows: load_table("tests.source", catalog).append(rows),
        ReadStreamFromIceberg("tests.source", catalog, after_snapshot=first, poll_seconds=0.2),
        WriteToIceberg("tests.target", catalog, schema=COLUMNS, every=1),
        lambda: load_table("tests.target", catalog).scan().to_arrow(),
    )


@pytest.fixture(params=[make_delta_stream, make_iceberg_stream], ids=["delta", "iceberg"])
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> StreamUnderTest:
    made: StreamUnderTest = request.param(tmp_path)
    return made


class Appender(threading.Thread):
    """Thread that appends versions until it is stopped."""

    def __init__(self, stream: StreamUnderTest) -> None:
        super().__init__()
        self._stream = stream
        self._stopping = threading.Event()
        self._next = _STEP

    def run(self) -> None:
        while not self._stopping.wait(0.3):
            self._stream.append(make_rows(self._next))
            self._next += _STEP

    def stop(self) -> list[int]:
        """Returns all numbers after the first version."""
        self._stopping.set()
        self.join()
        return list(range(_STEP, self._next))


def test_stream_of_table_versions_has_each_row_once_if_processes_are_killed_or_suspended(
    stream: StreamUnderTest, temporary: Path, tmp_path: Path, kills: int, seed: int
) -> None:
    def read_numbers() -> list[int]:
        return sorted(stream.read_target().column("number").to_pylist())

    appender = Appender(stream)
    with lives(temporary, tmp_path / "state", "--without-spark") as running:
        pipelines = Pipelines(running.address, "embedded", ())
        pipeline = pipelines.new("--streaming")
        _ = pipeline | stream.read | stream.write
        job = pipelines.job(pipeline)
        appender.start()
        try:
            wait_until(read_numbers, _WAIT, "a row")
            done = disturb(running, kills, seed)
        finally:
            numbers = appender.stop()
        wait_until(lambda: read_numbers()[-1:] == numbers[-1:], _WAIT, "the last row")
        drain(running.address, job.job_id)
    print(f"STREAM {json.dumps({'seed': seed, 'rows': len(numbers), **done})}")
    assert read_numbers() == numbers
