"""Tests that an outage of a Delta table's storage is a wait, and not a failed attempt, in all calls of the library."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from moto_server import S3

from beam_spark_io import ReadFromDelta, patience
from beam_spark_io.delta.outages import is_unavailable
from beam_spark_io.delta.sink import DeltaCommitter, DeltaSink
from beam_spark_io.delta.streaming import find_next_version
from beam_spark_io.delta.table import DeltaTarget
from beam_spark_io.exactly_once.protocols import CommitId, SinkUnavailable
from beam_spark_io.tables.outages import TableUnavailable

deltalake = pytest.importorskip("deltalake", reason="the extra `delta` isn't installed")

FIRST = CommitId("run", 0, 1, b"the first digest")
SECOND = CommitId("run", 0, 2, b"the second digest")
COLUMNS = pa.schema([pa.field("id", pa.int64(), False)])
WIDER = pa.schema([*COLUMNS, pa.field("note", pa.string())])


class Storage:
    """Folder of a table, which a file replaces during an outage."""

    def __init__(self, folder: Path) -> None:
        self._away = folder / "away"
        self.table = folder / "table"

    def stop(self) -> None:
        self.table.rename(self._away)
        self.table.touch()

    def start(self) -> None:
        self.table.unlink()
        self._away.rename(self.table)


def make_sink(table: Path, mode: str, columns: pa.Schema) -> DeltaSink:
    key = ("id",) if mode == "upsert" else ()
    return DeltaSink(DeltaTarget(str(table), mode, columns, (), key, True, {}))


def stage(sink: DeltaSink, *numbers: int) -> list[Any]:
    rows = [{"id": number, "note": None} for number in numbers]
    writer = sink.create_writer("run")
    if writer is None:
        return rows
    for row in rows:
        writer.write(row)
    return list(writer.close())


@pytest.mark.parametrize("columns", [COLUMNS, WIDER], ids=["same", "wider"])
@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert"])
def test_commit_waits_for_storage_that_stops_after_the_table_was_opened(
    tmp_path: Path, mode: str, columns: pa.Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(tmp_path)
    first = make_sink(storage.table, mode, COLUMNS)
    first.create_committer("run", 0).commit(FIRST, stage(first, 1))
    sink = make_sink(storage.table, mode, columns)
    staged = stage(sink, 2)
    read_mark = DeltaCommitter._read_mark

    def read_mark_and_stop(*arguments: Any) -> Any:
        mark = read_mark(*arguments)
        storage.stop()
        return mark

    with monkeypatch.context() as patched:
        patched.setattr(DeltaCommitter, "_read_mark", read_mark_and_stop)
        with pytest.raises(SinkUnavailable, match="table is unavailable: .*Not a directory"):
            sink.create_committer("run", 0).commit(SECOND, staged)
    storage.start()
    assert sink.create_committer("run", 0).commit(SECOND, staged) == 1
    numbers = deltalake.DeltaTable(storage.table).to_pyarrow_table().column("id").to_pylist()
    assert sorted(numbers) == ([2] if mode == "overwrite" else [1, 2])


def test_sink_waits_for_an_object_store_that_does_not_respond() -> None:
    url, options = "s3://bucket/table", {**S3, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    options["max_retries"] = "0"
    sink = DeltaSink(DeltaTarget(url, "append", COLUMNS, (), (), False, options))
    with pytest.raises(SinkUnavailable, match=f"the table {url} is unavailable: .*sending request"):
        sink.create_writer("run")
    with pytest.raises(SinkUnavailable, match="sending request"):
        sink.create_committer("run", 0).commit(FIRST, [])


class Sale(typing.NamedTuple):
    id: int


@pytest.fixture
def table(tmp_path: Path) -> Path:
    deltalake.write_deltalake(tmp_path, pa.table({"id": [1, 2]}))
    return tmp_path


@pytest.mark.parametrize("step", ["open", "file", "version"])
def test_read_waits_for_storage_and_fails_after_its_patience(
    table: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake.fs import DeltaStorageHandler

    kind: Any = DeltaStorageHandler if step == "file" else deltalake.DeltaTable
    name = "open_input_file" if step == "file" else "__init__"
    call = getattr(kind, name)
    outages: list[OSError] = []
    pauses: list[float] = []

    def fail_sometimes(*arguments: Any, **more: Any) -> Any:
        if outages:
            raise outages.pop()
        return call(*arguments, **more)

    monkeypatch.setattr(kind, name, fail_sometimes)
    monkeypatch.setattr(patience, "_sleep", pauses.append)

    def read(seconds: float, count: int) -> Any:
        read = ReadFromDelta(str(table), schema=Sale, patience=seconds)
        outages.extend([OSError("Generic S3 error: error sending request")] * count)
        if step == "version":
            return find_next_version(read._list_files._source)
        read._read_file.setup()
        tasks = list(read._list_files.process(b""))
        return [n for one in tasks for b in read._read_file.process(one) for n in b[0].to_pylist()]

    assert read(60.0, 2) == (1 if step == "version" else [1, 2])
    assert pauses == [0.1, 0.2]
    if step != "version":
        with pytest.raises(TableUnavailable, match="error sending request"):
            read(0.0, 1)
    with pytest.raises(ValueError, match="patience is -1"):
        ReadFromDelta(str(table), schema=Sale, patience=-1)


@pytest.mark.parametrize(
    ("error", "is_away"),
    [
        (OSError("Generic S3 error: 503 Service Unavailable"), True),
        (FileNotFoundError("part-1.parquet"), False),
        (PermissionError("part-1.parquet"), False),
        (
            "Generic DeltaTable error: Error interacting with object store: Generic S3 error: x",
            True,
        ),
        ("Failed to parse parquet: External: Error performing PUT http://x: 403 Forbidden", True),
        (
            "Generic DeltaTable error: Object at location t/x not found: Error performing GET u",
            False,
        ),
        ("Generic DeltaTable error: MERGE matched several rows", False),
        ("Kernel error: File not found: t/_delta_log/0.json", False),
        (ValueError("Generic S3 error: Error performing GET u"), False),
    ],
)
def test_errors_of_storage_are_outages(error: Exception | str, is_away: bool) -> None:
    if isinstance(error, str):
        error = deltalake.exceptions.DeltaError(error)
    assert is_unavailable(error) is is_away


def test_conflicts_are_outages_and_refusals_are_not() -> None:
    assert is_unavailable(deltalake.exceptions.CommitFailedError("another version"))
    refusal = "Generic S3 error: in the name of a column"
    assert not is_unavailable(deltalake.exceptions.SchemaMismatchError(refusal))
