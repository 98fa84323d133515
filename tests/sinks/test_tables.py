"""Bounded pipelines into Delta and Iceberg tables are all or nothing, and read what they have written."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_model.jobs import JobState
from beam_spark_io import (
    ReadFromDelta,
    ReadFromIceberg,
    WriteToDelta,
    WriteToIceberg,
)
from beam_spark_io.iceberg.table import load_table
from deltalake import DeltaTable
from jobs import Pipelines
from lives import lives
from pyiceberg.catalog import load_catalog

pytestmark = pytest.mark.timeout(300)
NUMBERS = range(200)
_BAD = 150


COLUMNS = pa.schema([pa.field("number", pa.int64(), False), pa.field("shop", pa.string(), False)])


@attrs.frozen
class TableUnderTest:
    """Table with its transforms.

    Attributes:
        write: makes a write of the table.
        read: makes a read of the table.
        count_commits: returns the number of commits with rows.
    """

    write: Callable[..., Any]
    read: Callable[..., Any]
    count_commits: Callable[[], int]


def make_delta_table(folder: Path) -> TableUnderTest:
    def count_commits() -> int:
        return sum("beam.commit" in entry for entry in DeltaTable(url).history())

    url = str(folder / "table")
    return TableUnderTest(
        lambda *modes, **more: WriteToDelta(
            url, *modes, partition_by=["shop"], schema=COLUMNS, **more
        ),
        lambda **more: ReadFromDelta(url, **more),
        count_commits,
    )


def make_iceberg_table(folder: Path) -> TableUnderTest:
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": folder.as_uri(),
    }
    loaded = load_catalog("beam", **catalog)
    loaded.create_namespace("tests")
    table = loaded.create_table("tests.numbers", COLUMNS)
    with table.update_spec() as spec:
        spec.add_identity("shop")
    return TableUnderTest(
        lambda *modes, **more: WriteToIceberg(
            "tests.numbers", catalog, *modes, schema=COLUMNS, **more
        ),
        lambda **more: ReadFromIceberg("tests.numbers", catalog, **more),
        lambda: len(load_table("tests.numbers", catalog).metadata.snapshots),
    )


@pytest.fixture(params=[make_delta_table, make_iceberg_table], ids=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableUnderTest:
    made: TableUnderTest = request.param(tmp_path)
    return made


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipelines]:
    state = tmp_path_factory.mktemp("state")
    with (
        tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as folder,
        lives(Path(folder), state, "--without-spark") as running,
    ):
        yield Pipelines(running.address, "embedded", ())


def make_row(number: int) -> beam.Row:
    return beam.Row(number=number, shop="ab"[number % 2])


def make_row_slowly(number: int) -> beam.Row:
    time.sleep(0.03)
    return make_row(number)


def fail_late(number: int) -> beam.Row:
    if number == _BAD:
        time.sleep(2)
        raise ValueError("a bad number")
    return make_row(number)


def build_rows(pipeline: beam.Pipeline, make: Callable[[int], beam.Row]) -> Any:
    numbers = pipeline | beam.Create(NUMBERS) | beam.Reshuffle()
    return numbers | beam.Map(make)


def test_bounded_pipeline_makes_one_commit_at_its_end(
    pipelines: Pipelines, table: TableUnderTest
) -> None:
    with pipelines.new() as p:
        results = build_rows(p, make_row_slowly) | table.write(every=1)
        assert_that(results | beam.Map(lambda one: one.result), equal_to([len(NUMBERS)]))
    assert table.count_commits() == 1
    with pipelines.new() as p:
        rows = p | table.read()
        found = rows | beam.Map(lambda row: (row.number, row.shop))
        assert_that(found, equal_to([(number, "ab"[number % 2]) for number in NUMBERS]))


def test_failed_pipeline_leaves_the_table_unchanged(
    pipelines: Pipelines, table: TableUnderTest
) -> None:
    with pipelines.new() as p:
        _ = p | beam.Create([make_row(0)]) | table.write()
    pipeline = pipelines.new()
    _ = build_rows(pipeline, fail_late) | table.write()
    assert pipelines.job(pipeline).wait() is JobState.FAILED
    assert table.count_commits() == 1
    with pipelines.new() as p:
        assert_that(p | table.read() | beam.Map(lambda row: row.number), equal_to([0]))


def test_pipeline_without_rows_empties_the_table_only_in_overwrite_mode(
    pipelines: Pipelines, table: TableUnderTest
) -> None:
    steps = (("append", NUMBERS, 200), ("append", (), 200), ("overwrite", (), 0))
    for mode, numbers, count in steps:
        with pipelines.new() as p:
            rows = p | beam.Create(numbers) | beam.Map(make_row)
            _ = rows | table.write(mode)
        with pipelines.new() as p:
            read = p | table.read() | beam.Map(lambda row: row.number)
            assert_that(read, equal_to(list(NUMBERS)[:count]))
