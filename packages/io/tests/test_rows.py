"""Tests of the conversion between rows and batches. Errors name the column."""

from __future__ import annotations

import typing
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.window import WindowedValue
from apache_beam.utils.timestamp import Timestamp
from beam_runner_data.rows.columns import decode_batch
from hypothesis import given
from hypothesis import strategies as st

from beam_spark_io.rows import BatchesOfRows, RowsAtTimes, RowsOfBatches
from beam_spark_io.schemas import make_declared_arrow_schema


class Row(typing.NamedTuple):
    id: int
    text: str | None
    at: Timestamp
    many: typing.Sequence[Timestamp]


MOMENTS = st.integers(-(10**15), 10**15).map(lambda micros: Timestamp(micros=micros))
ROWS = st.builds(
    Row,
    st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(st.characters(codec="utf-8")),
    MOMENTS,
    st.lists(MOMENTS, max_size=3),
)


def batches(rows: list[Any], schema: Any = Row) -> list[bytes]:
    fn = BatchesOfRows(make_declared_arrow_schema(schema))
    fn.setup()
    fn.start_bundle()
    found = [batch for row in rows for batch in fn.process(row) or ()]
    return [*found, *(last.value for last in fn.finish_bundle() if isinstance(last, WindowedValue))]


@given(st.lists(ROWS, max_size=250))
def test_rows_in_batches_round_trip(rows: list[Row]) -> None:
    read = RowsOfBatches(Row)
    assert [row for batch in batches(rows) for row in read.process(batch)] == rows


@given(st.lists(ROWS, max_size=250))
def test_rows_get_timestamps_of_column(rows: list[Row]) -> None:
    read = RowsAtTimes("at", Row)
    found = [each for batch in batches(rows) for each in read.process(batch)]
    assert [(each.value, each.timestamp) for each in found] == [(row, row.at) for row in rows]


def test_row_fields_are_matched_to_columns_by_name() -> None:
    row = Row(1, "a", Timestamp(0), [])
    turned = typing.NamedTuple("turned", reversed(list(typing.get_type_hints(Row).items())))
    others = [kind(**row._asdict()) for kind in (dict, beam.Row, turned)]
    (batch,) = batches([row, *others])
    assert list(RowsOfBatches(Row).process(batch)) == [row] * 4
    assert [found.id for found in RowsOfBatches().process(batch)] == [1] * 4


@pytest.mark.parametrize(
    "names",
    [["id"], ["id", "a.b"], ["id", "class"], ["id", "row", "new"], ["__class__", "é"], ["\u00b5m"]],
)
def test_row_fields_can_have_any_name(names: list[str]) -> None:
    row = {name: len(name) for name in names}
    schema = pa.schema([(name, pa.int64()) for name in names])
    given = [row] if "__class__" in names else [row, beam.Row(**row)]
    (batch,) = batches(given, schema)
    assert [made.as_dict() for made in RowsOfBatches().process(batch)] == [row] * len(given)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"id": 1}, "no field 'text'"),
        (
            {"id": "x", "text": "", "at": Timestamp(0), "many": []},
            "the column 'id' has the type int64",
        ),
        ({"id": None, "text": "", "at": Timestamp(0), "many": []}, "'id' must not contain nulls"),
        (
            {"id": 2**63, "text": "", "at": Timestamp(0), "many": []},
            "the column 'id' has the type int64",
        ),
    ],
)
def test_row_value_that_column_cannot_store_is_reported(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        batches([value])


def test_row_batches_are_about_one_megabyte() -> None:
    made = batches(
        [{"text": "x" * 10_000} for _ in range(1000)], pa.schema([("text", pa.string())])
    )
    assert len(made) > 5
    assert all(len(batch) < 4 << 20 for batch in made)


def decoded(rows: list[Row]) -> list[pa.RecordBatch]:
    return [decode_batch(batch) for batch in batches(rows)]


@given(st.lists(ROWS, max_size=250), st.booleans())
def test_batches_are_written_as_their_rows(rows: list[Row], is_table: bool) -> None:
    tables = decoded(rows)
    given = [pa.Table.from_batches(tables)] if is_table and tables else tables
    assert [batch.to_pylist() for batch in map(decode_batch, batches(given))] == [
        batch.to_pylist() for batch in tables
    ]


def test_rows_and_batches_are_written_together() -> None:
    rows = [Row(number, "a", Timestamp(0), []) for number in range(3)]
    read = RowsOfBatches(Row)
    found = batches([rows[0], *decoded(rows[1:2]), rows[2]])
    assert sorted(row for batch in found for row in read.process(batch)) == rows


def test_large_batch_is_divided() -> None:
    schema = pa.schema([("text", pa.string())])
    large = pa.RecordBatch.from_pydict({"text": ["x" * 1000] * 5000})
    found = [decode_batch(batch) for batch in batches([large], schema)]
    assert len(found) > 3
    assert sum(batch.num_rows for batch in found) == 5000
    assert max(len(batch) for batch in batches([large], schema)) < 2 << 20


def test_batch_is_cast_to_the_columns() -> None:
    schema = pa.schema([("number", pa.int64()), ("text", pa.string())])
    other = pa.RecordBatch.from_pydict(
        {
            "more": [1, 2],
            "text": pa.array(["a", None], pa.large_string()).dictionary_encode(),
            "number": pa.array([1, 2], pa.int16()),
        }
    )
    (found,) = batches([other], schema)
    assert decode_batch(found).schema == schema
    assert decode_batch(found).to_pylist() == [
        {"number": 1, "text": "a"},
        {"number": 2, "text": None},
    ]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"other": [1]}, "a batch has no column 'number'"),
        ({"number": ["3"]}, "the column 'number' has the type int32, but a batch has string"),
        ({"number": [2**40]}, "the column 'number' .* int64: Integer value 1099511627776"),
        ({"number": [1.5]}, "the column 'number' .* double: Float value 1.5"),
        ({"number": [None]}, "the column 'number' has the type int32, but a batch has null"),
        ({"number": pa.array([None], pa.int32())}, "the column 'number' must not contain nulls"),
    ],
)
def test_batch_that_does_not_fit_raises_error(column: dict[str, Any], said: str) -> None:
    schema = pa.schema([pa.field("number", pa.int32(), nullable=False)])
    with pytest.raises(ValueError, match=said):
        batches([pa.RecordBatch.from_pydict(column)], schema)
