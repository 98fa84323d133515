"""Tests of `ReadFromDelta` and `ReadFromIceberg` on a runner of Beam."""

from __future__ import annotations

import datetime
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp

from beam_spark_io import ReadFromDelta, ReadFromIceberg
from beam_spark_io.schemas import UnknownType

Reads = tuple[Callable[..., Any], Any]
"""A function that makes a read with some arguments, and the condition `id > 2` in its language."""


class Sale(typing.NamedTuple):
    id: int
    at: Timestamp | None
    day: datetime.date


DAYS = [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)]
SALES = [Sale(n, Timestamp(n) if n else None, DAYS[n % 2]) for n in range(4)]
TABLE = pa.table(
    {
        "id": [sale.id for sale in SALES],
        "at": pa.array([sale.at and sale.at.micros for sale in SALES], pa.timestamp("us", "UTC")),
        "day": pa.array([sale.day for sale in SALES], pa.date32()),
    }
)


def write_delta(folder: Path) -> Reads:
    deltalake = pytest.importorskip("deltalake", reason="the extra `delta` isn't installed")
    deltalake.write_deltalake(folder, TABLE, partition_by=["day"])
    deltalake.write_deltalake(folder, TABLE.slice(0, 0), mode="append")
    return lambda **more: ReadFromDelta(str(folder), **more), {"filters": [("id", ">", 2)]}


def write_iceberg(folder: Path) -> Reads:
    catalogs = pytest.importorskip(
        "pyiceberg.catalog", reason="the extra `iceberg` isn't installed"
    )
    pytest.importorskip("sqlalchemy", reason="the catalog of the tests needs it")
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": folder.as_uri()}
    catalog = catalogs.load_catalog("beam", **properties)
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.sales", TABLE.schema)
    for number in (0, 2):
        table.append(TABLE.slice(number, 2))
    return lambda **more: ReadFromIceberg("shop.sales", properties, **more), {"where": "id > 2"}


@pytest.fixture(params=[write_delta, write_iceberg], ids=["delta", "iceberg"])
def reads(request: pytest.FixtureRequest, tmp_path: Path) -> Reads:
    made: Reads = request.param(tmp_path)
    return made


def read_numbers(read: Any) -> list[int]:
    """Returns the values of the first column, read without a runner."""
    read._read_file.setup()
    tasks = list(read._list_files.process(b""))
    batches = [batch for task in tasks for batch in read._read_file.process(task)]
    return sorted(number for batch in batches for number in batch.column(0).to_pylist())


def test_table_read_selects_columns_and_rows_and_returns_rows_or_batches(reads: Reads) -> None:
    make, condition = reads
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        rows = pipeline | "rows" >> make(schema=Sale)
        assert rows.element_type is Sale
        assert_that(rows, equal_to(SALES), label="all")
        some = pipeline | "some" >> make(columns=["day", "id"], **condition)
        expected = [beam.Row(day=DAYS[1], id=3)]
        assert_that(some, equal_to(expected), label="some rows")
        batches = pipeline | "batches" >> make(columns=["id"], batches=True)
        numbers = batches | beam.FlatMap(lambda batch: batch.column(0).to_pylist())
        assert_that(numbers, equal_to([0, 1, 2, 3]), label="numbers")


def test_rows_of_table_read_have_columns_of_table(reads: Reads) -> None:
    make, _ = reads
    rows = beam.Pipeline() | make()
    assert dict(rows.element_type._fields)["id"] == beam.typehints.Optional[int]
    with pytest.raises(ValueError, match="'absent' is missing"):
        make(columns=["absent"])


def test_table_file_without_matching_rows_is_not_read(reads: Reads) -> None:
    make, condition = reads
    assert len(list(make()._list_files.process(b""))) > 1
    assert len(list(make(**condition)._list_files.process(b""))) == 1


def test_earlier_version_of_delta_table_is_read(tmp_path: Path) -> None:
    write_delta(tmp_path)
    import deltalake

    deltalake.write_deltalake(tmp_path, TABLE.slice(0, 1), mode="overwrite")
    read = ReadFromDelta(str(tmp_path), version=0, columns=["id"])
    assert read_numbers(read) == [0, 1, 2, 3]
    assert read_numbers(ReadFromDelta(str(tmp_path), columns=["id"])) == [0]


def test_earlier_snapshot_of_iceberg_table_is_read(tmp_path: Path) -> None:
    make, _ = write_iceberg(tmp_path)
    tasks = list(make()._list_files.process(b""))
    from beam_spark_io.iceberg.table import load_table

    source = make()._list_files._source
    first, last = load_table(source.name, source.catalog).metadata.snapshots
    assert {snapshot for snapshot, _ in tasks} == {last.snapshot_id}
    assert read_numbers(make(snapshot=first.snapshot_id, columns=["id"])) == [0, 1]


def test_delta_table_with_deletion_vectors_is_refused(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="the extra `delta` isn't installed")
    deltalake.write_deltalake(
        tmp_path, TABLE, configuration={"delta.enableDeletionVectors": "true"}
    )
    with pytest.raises(deltalake.exceptions.DeltaProtocolError, match="deletionVectors"):
        ReadFromDelta(str(tmp_path))


def test_table_column_with_type_that_rows_do_not_support_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg", reason="the extra `iceberg` isn't installed")
    times = pa.schema([("id", pa.int64()), ("time", pa.time64("us"))])
    with pytest.raises(UnknownType, match="'time' has the Arrow type time64"):
        ReadFromIceberg("shop.sales", {}, schema=times)
    ReadFromIceberg("shop.sales", {}, schema=times, columns=["id"])
