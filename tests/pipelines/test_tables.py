"""Tests of rows that Spark's own readers and writers read and write."""

from __future__ import annotations

import datetime
import decimal
import typing
import uuid
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp
from beam_runner_model.jobs import JobState
from beam_spark_io import ReadFromSpark, WriteToSpark
from beam_spark_io.schemas import make_declared_arrow_schema
from jobs import Pipelines


class Place(typing.NamedTuple):
    """A column of columns."""

    name: str
    at: float | None


class Event(typing.NamedTuple):
    """A row with columns of all types."""

    id: int
    text: str | None
    raw: bytes
    ratio: float
    price: decimal.Decimal
    day: datetime.date
    moment: Timestamp
    tags: typing.Sequence[str]
    counts: typing.Mapping[str, int]
    place: Place


def event(number: int) -> dict[str, typing.Any]:
    return {
        "id": number,
        "text": None if number % 2 else f"text {number}",
        "raw": bytes([number, 0, 255]),
        "ratio": number / 8,
        "price": decimal.Decimal(number) / 100,
        "day": datetime.date(2026, 1, 1 + number),
        "moment": Timestamp(micros=1_767_225_600_000_001 + number),
        "tags": ["a"] * number,
        "counts": {"n": number},
        "place": {"name": "here", "at": None},
    }


def told(row: beam.Row) -> dict[str, typing.Any]:
    return {**row.as_dict(), "place": row.place.as_dict()}


def test_table_rows_of_all_types_round_trip(pipelines: Pipelines, tmp_path: Path) -> None:
    path = str(tmp_path / "events")
    events = [event(number) for number in range(5)]
    with pipelines.new() as p:
        written = p | beam.Create(events) | WriteToSpark("parquet", path, schema=Event)
        assert_that(written, equal_to([f"parquet {path}"]))
    with pipelines.new() as p:
        rows = p | ReadFromSpark("parquet", path=path, schema=make_declared_arrow_schema(Event))
        assert_that(rows | beam.Map(told), equal_to(events))


def test_table_is_read_and_written_in_batches(embedded: Pipelines, tmp_path: Path) -> None:
    path, copy = str(tmp_path / "events"), str(tmp_path / "copy")
    events = [event(number) for number in range(5)]
    with embedded.new() as p:
        p | beam.Create(events) | WriteToSpark("parquet", path, schema=Event)
    with embedded.new() as p:
        batches = p | ReadFromSpark("parquet", path=path, schema=Event, batches=True)
        assert_that(batches | beam.Map(len) | beam.CombineGlobally(sum), equal_to([5]))
        batches | WriteToSpark("parquet", copy, schema=Event)
    found = [pyarrow.parquet.read_table(folder).to_pylist() for folder in (path, copy)]
    assert sorted(found[0], key=str) == sorted(found[1], key=str)
    assert len(found[1]) == 5


def test_table_columns_and_filters_are_pushed_down(embedded: Pipelines, tmp_path: Path) -> None:
    number = pa.schema([("id", pa.int64())])
    with embedded.new() as p:
        picked = (
            p
            | ReadFromSpark(sql="SELECT id, id * 2 AS twice FROM range(100)")
            | beam.Filter(lambda row: row.id % 10 == 3)
            | beam.Map(lambda row: beam.Row(id=int(row.twice)))
        )
        picked | WriteToSpark("json", str(tmp_path / "out"), mode="overwrite", schema=number)
    with embedded.new() as p:
        rows = p | ReadFromSpark(
            "json", path=str(tmp_path / "out"), schema=number, where="id > 100"
        )
        assert_that(rows | beam.Map(lambda row: row.id), equal_to([106, 126, 146, 166, 186]))


def test_jdbc_table_is_read(embedded: Pipelines) -> None:
    options = {"url": "jdbc:derby:memory:db;create=true", "dbtable": "sysibm.sysdummy1"}
    with embedded.new() as p:
        rows = p | ReadFromSpark("jdbc", options=options)
        assert_that(rows | beam.Map(lambda row: row.IBMREQD), equal_to(["Y"]))


def test_catalog_table_is_created_appended_and_read(embedded: Pipelines) -> None:
    table = f"events_{uuid.uuid4().hex}"
    columns = pa.schema([("id", pa.int64()), ("day", pa.string())])
    for mode, ids in (("error", range(4)), ("append", range(4, 6))):
        with embedded.new() as p:
            rows = p | beam.Create([{"id": number, "day": f"{number % 2}"} for number in ids])
            write = WriteToSpark(table=table, mode=mode, partition_by=["day"], schema=columns)
            assert_that(rows | write, equal_to([table]))
    with embedded.new() as p:
        rows = p | ReadFromSpark(table=table, where="day = '1'")
        assert_that(rows | beam.Map(lambda row: row.id), equal_to([1, 3, 5]))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no_such_table", "`no_such_table` cannot be found"),
        ("no_such_database.t", "`no_such_database`.`t` cannot be found"),
        ("no.such.catalog", "`no`"),
        ("a b", "Syntax error at or near 'b'"),
    ],
)
def test_unknown_table_name_is_reported_in_one_line(
    embedded: Pipelines, name: str, told: str
) -> None:
    p = embedded.new()
    _ = p | "It" >> ReadFromSpark(table=name)
    job = embedded.job(p)
    assert job.wait() is JobState.FAILED
    said = job.messages()[-1].text.splitlines()[0]
    assert "It/Spark" in said and told in said


def test_table_error_names_the_transform(embedded: Pipelines, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.parquet").write_bytes(b"")
    p = embedded.new()
    rows = p | "Nothing" >> ReadFromSpark("parquet", path=str(tmp_path / "none"))
    rows | WriteToSpark("parquet", str(tmp_path / "out"), schema=Place)
    job = embedded.job(p)
    assert job.wait() is JobState.FAILED
    said = job.messages()[-1].text
    assert "PATH_NOT_FOUND" in said and "Nothing/Spark" in said
    assert list((tmp_path / "out").iterdir()) == [tmp_path / "out" / "mine.parquet"]


def test_table_rows_that_differ_from_the_declared_schema_fail_the_job(
    embedded: Pipelines, tmp_path: Path
) -> None:
    p = embedded.new()
    rows = p | beam.Create([{"name": 3, "at": None}])
    rows | "Out" >> WriteToSpark("parquet", str(tmp_path / "out"), schema=Place)
    job = embedded.job(p)
    assert job.wait() is JobState.FAILED
    said = job.messages()[-1].text
    assert "the column 'name' has the type string" in said and "Out/Batches" in said
    with pytest.raises(FileNotFoundError):
        pyarrow.parquet.read_table(tmp_path / "out")
