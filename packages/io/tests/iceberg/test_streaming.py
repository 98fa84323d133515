"""Tests of `ReadStreamFromIceberg`, whose DoFns are called as a runner calls them."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker
from apache_beam.utils.timestamp import Timestamp

from beam_spark_io import ReadStreamFromIceberg
from beam_spark_io.endless_restrictions import EndlessRestrictions
from beam_spark_io.iceberg.table import load_table
from beam_spark_io.tables.reading import encode_columns

pytest.importorskip("pyiceberg", reason="the extra `iceberg` isn't installed")
pytest.importorskip("sqlalchemy", reason="the catalog of the tests needs it")

COLUMNS = pa.schema([pa.field("id", pa.int64(), False), pa.field("day", pa.string())])


class Day(typing.NamedTuple):
    id: int
    day: str | None


class TableUnderTest:
    """Table `shop.days` in a folder, partitioned by day."""

    def __init__(self, folder: Path) -> None:
        from pyiceberg.catalog import load_catalog

        self.catalog = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": folder.as_uri(),
        }
        self.loaded = load_catalog("beam", **self.catalog)
        self.loaded.create_namespace("shop")
        self.create()

    def create(self, **properties: str) -> None:
        table = self.loaded.create_table("shop.days", COLUMNS, properties=properties)
        with table.update_spec() as spec:
            spec.add_identity("day")

    def load(self) -> Any:
        return load_table("shop.days", self.catalog)

    def append(self, *numbers: int, day: str | None = "a/b %") -> int:
        """Appends rows; returns the ID of the snapshot."""
        days = pa.array([day] * len(numbers), pa.string())
        table = self.load()
        table.append(pa.table([pa.array(numbers, pa.int64()), days], schema=COLUMNS))
        return int(table.current_snapshot().snapshot_id)


@pytest.fixture
def table(tmp_path: Path) -> TableUnderTest:
    return TableUnderTest(tmp_path)


class StreamUnderTest:
    """Stream of a table, read bundle by bundle from a restriction."""

    def __init__(self, table: TableUnderTest, after: int | None = None, **more: Any) -> None:
        read = ReadStreamFromIceberg("shop.days", table.catalog, batches=True, **more)
        self._list, self._read = read._list_files, read._read_file
        self._list.setup()
        self._read.setup()
        start = read._lineage.find_snapshot_position(table.load(), after)
        self.restriction = OffsetRange(start, 2**62)
        self.estimator = ManualWatermarkEstimator(None)

    def read_batches(self) -> list[tuple[pa.RecordBatch, Timestamp]]:
        """Returns the batches of one bundle with their times, and continues after it."""
        tracker = ThreadsafeRestrictionTracker(
            EndlessRestrictions().create_tracker(self.restriction)
        )
        view = RestrictionTrackerView(tracker)
        found = [
            (batch, one.timestamp)
            for one in self._list.process(0, view, self.estimator)
            for batch in self._read.process(one.value)
        ]
        self.restriction = tracker.deferred_status()[0]
        return found


def read_numbers(stream: StreamUnderTest) -> list[int]:
    return sorted(
        number for batch, _ in stream.read_batches() for number in batch.column("id").to_pylist()
    )


def test_rows_of_each_snapshot_are_read_once(table: TableUnderTest) -> None:
    first = table.append(1, 2)
    table.append(3)
    stream, newest = StreamUnderTest(table, first), StreamUnderTest(table)
    assert read_numbers(stream) == [3]
    assert read_numbers(stream) == read_numbers(newest) == []
    table.append(4, day=None)
    table.append(5)
    assert read_numbers(stream) == read_numbers(newest) == [4, 5]


def test_stream_of_a_table_without_snapshots_reads_the_first_one(table: TableUnderTest) -> None:
    stream = StreamUnderTest(table)
    assert read_numbers(stream) == []
    table.append(1)
    assert read_numbers(stream) == [1]


def test_rows_have_the_time_of_their_snapshot_and_are_never_late(table: TableUnderTest) -> None:
    stream = StreamUnderTest(table)
    started = Timestamp.now()
    table.append(1)
    ((_, time),) = stream.read_batches()
    assert started - 1 <= time <= Timestamp.now()
    late = Timestamp.now() + 1000
    stream.estimator.set_watermark(late)
    table.append(2)
    assert [time for _, time in stream.read_batches()] == [late]


def test_snapshot_that_removes_rows_is_read_only_on_request(table: TableUnderTest) -> None:
    table.append(1)
    table.append(2, day="b")
    strict, lenient = StreamUnderTest(table), StreamUnderTest(table, ignore_removals=True)
    table.load().delete("id = 2")
    with pytest.raises(ValueError, match="removes rows"):
        strict.read_batches()
    table.load().overwrite(pa.table({"id": [3], "day": ["b"]}, COLUMNS))
    assert read_numbers(lenient) == [3]


def test_overwrite_of_an_absent_partition_removes_no_rows(table: TableUnderTest) -> None:
    table.append(1)
    stream = StreamUnderTest(table)
    with (
        table.load().transaction() as change,
        change.update_snapshot().overwrite() as producer,
    ):
        producer.append_data_file(next(iter(table.load().scan().plan_files())).file)
    assert table.load().current_snapshot().summary.operation.value == "overwrite"
    assert read_numbers(stream) == [1]


def test_compaction_emits_no_row_again(
    table: TableUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.table import snapshots
    from pyiceberg.table.update.snapshot import _OverwriteFiles

    table.append(1)
    table.append(2)
    stream = StreamUnderTest(table)
    # The library doesn't compact tables, so the test gives an overwrite the operation of a compaction.
    loaded = table.load()
    old = [task.file for task in loaded.scan().plan_files()]
    with monkeypatch.context() as patched:
        replace, update = snapshots.Operation.REPLACE, snapshots.update_snapshot_summaries
        patched.setattr(
            "pyiceberg.table.update.snapshot.update_snapshot_summaries",
            lambda summary, previous_summary: (
                summary if summary.operation is replace else update(summary, previous_summary)
            ),
        )
        with loaded.transaction() as change:
            producer = _OverwriteFiles(replace, change, loaded.io)
            for file in old:
                producer.delete_data_file(file)
            with producer:
                producer.append_data_file(old[0])
    assert table.load().current_snapshot().summary.operation is replace
    table.append(3)
    assert read_numbers(stream) == [3]


def test_conditions_and_columns_select_data(table: TableUnderTest) -> None:
    conditions = ("id > 1", "day = 'a/b %'", "day is null")
    streams = [StreamUnderTest(table, where=where) for where in conditions]
    some = StreamUnderTest(table, columns=["day", "id"])
    table.append(1, 2)
    table.append(3, day=None)
    assert [read_numbers(stream) for stream in streams] == [[2, 3], [1, 2], [3]]
    assert {tuple(batch.schema.names) for batch, _ in some.read_batches()} == {("day", "id")}


def test_expired_snapshot_that_the_stream_needs_is_refused(table: TableUnderTest) -> None:
    stream, behind = StreamUnderTest(table), StreamUnderTest(table)
    snapshots = [table.append(number) for number in (1, 2, 3)]
    assert read_numbers(stream) == [1, 2, 3]
    table.load().maintenance.expire_snapshots().by_ids(snapshots[:2]).commit()
    table.append(4)
    assert read_numbers(stream) == [4]
    with pytest.raises(ValueError, match="expired snapshots that the stream hasn't read"):
        behind.read_batches()
    with pytest.raises(ValueError, match=f"no ancestor with the ID {snapshots[0]}"):
        StreamUnderTest(table, snapshots[0])


def test_rollback_of_a_read_snapshot_is_refused_unless_removals_are_ignored(
    table: TableUnderTest,
) -> None:
    first = table.append(1)
    table.append(2)
    strict, lenient = StreamUnderTest(table), StreamUnderTest(table, ignore_removals=True)
    table.load().manage_snapshots().set_current_snapshot(first).commit()
    table.append(3)
    with pytest.raises(ValueError, match="was rolled back"):
        strict.read_batches()
    assert read_numbers(lenient) == [3]


def test_table_that_was_replaced_is_refused(table: TableUnderTest) -> None:
    for number in range(3):
        table.append(number)
    stream = StreamUnderTest(table, ignore_removals=True)
    table.loaded.drop_table("shop.days")
    table.create()
    table.append(1)
    with pytest.raises(ValueError, match="the table was replaced"):
        stream.read_batches()


def test_table_without_sequence_numbers_is_refused(table: TableUnderTest) -> None:
    table.loaded.drop_table("shop.days")
    table.create(**{"format-version": "1"})
    with pytest.raises(ValueError, match="format version 1"):
        StreamUnderTest(table)


def test_new_column_leaves_rows_with_their_columns(table: TableUnderTest) -> None:
    stream = StreamUnderTest(table)
    table.append(1)
    assert [batch.schema.names for batch, _ in stream.read_batches()] == [["id", "day"]]
    with table.load().update_schema() as update:
        update.union_by_name(pa.schema([("note", pa.string())]))
    table.append(2)
    ((batch, _),) = stream.read_batches()
    assert batch.schema.names == ["id", "day", "note"]
    encode_columns(Day._fields, batch)
    with table.load().update_schema() as update:
        update.rename_column("day", "date")
    table.load().append(
        pa.table(
            {"id": [3], "date": ["a"]}, pa.schema([COLUMNS.field("id"), ("date", pa.string())])
        )
    )
    ((batch, _),) = stream.read_batches()
    with pytest.raises(ValueError, match="no column 'day'"):
        encode_columns(Day._fields, batch)


def test_outage_of_the_catalog_defers_the_stream(
    table: TableUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    def fail(*_: Any) -> None:
        raise ConnectionError("the catalog is away")

    stream = StreamUnderTest(table)
    table.append(1)
    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "load_table", fail)
        assert read_numbers(stream) == []
    assert read_numbers(stream) == [1]


def test_outage_of_the_storage_delays_a_file(
    table: TableUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.io.pyarrow import ArrowScan

    failures = [ConnectionError("the storage is away"), FileNotFoundError("the file is gone")]
    read = ArrowScan.to_record_batches

    def fail_once(*arguments: Any) -> Any:
        if failures:
            raise failures.pop(0)
        return read(*arguments)

    stream = StreamUnderTest(table)
    monkeypatch.setattr(ArrowScan, "to_record_batches", fail_once)
    table.append(1)
    with pytest.raises(FileNotFoundError):
        read_numbers(stream)
    assert failures == []
    assert read_numbers(stream) == [1]


def test_stream_is_unbounded_and_has_the_columns_of_the_table(table: TableUnderTest) -> None:
    rows = beam.Pipeline() | ReadStreamFromIceberg("shop.days", table.catalog, columns=["id"])
    assert not rows.is_bounded
    assert [name for name, _ in rows.element_type._fields] == ["id"]
    with pytest.raises(ValueError, match="poll_seconds is -1"):
        ReadStreamFromIceberg("shop.days", table.catalog, poll_seconds=-1)
