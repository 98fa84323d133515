"""Tests that batches of rows become the elements that Beam's converters make."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy
import pyarrow as pa
import pytest
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints import arrow_type_compatibility as arrow
from apache_beam.typehints.batch import BatchConverter, ListBatchConverter, NumpyBatchConverter
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import typing_from_runner_api
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_embedded import batches
from beam_runner_embedded.batches import is_plain_named_tuple, make_explode_function

# A class statement of this module would have annotations as texts, which Beam's converters ignore.
Item = NamedTuple("Item", [("name", str), ("count", numpy.int64)])  # noqa: UP014


INTEGERS = [(pa.int8(), 8), (pa.int16(), 16), (pa.int32(), 32), (pa.int64(), 64)]
PRIMITIVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *((kind, st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)) for kind, bits in INTEGERS),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text()),
    (pa.binary(), st.binary()),
    (pa.bool_(), st.booleans()),
]
"""Arrow types of the primitive types of Beam's schemas, with their values."""


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


def nested(
    inner: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    """Returns lists, maps and rows of other types."""
    keys = st.sampled_from([(pa.string(), st.text()), (pa.int64(), st.integers(-9, 9))])
    return st.one_of(
        inner.map(lambda one: (pa.list_(one[0]), st.lists(nullable(one[1]), max_size=3))),
        st.tuples(keys, inner).map(
            lambda both: (
                pa.map_(both[0][0], both[1][0]),
                st.dictionaries(both[0][1], nullable(both[1][1]), max_size=3).map(
                    lambda made: list(made.items())
                ),
            )
        ),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: (
                pa.struct([(f"part{place}", kind) for place, (kind, _) in enumerate(parts)]),
                st.fixed_dictionaries(
                    {f"part{place}": nullable(made) for place, (_, made) in enumerate(parts)}
                ),
            )
        ),
    )


columns = st.recursive(st.sampled_from(PRIMITIVES), nested, max_leaves=4)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Draws a table in chunks, some of them empty."""
    kinds = draw(st.lists(columns, min_size=1, max_size=4))
    schema = pa.schema([(f"field{place}", kind) for place, (kind, _) in enumerate(kinds)])
    chunks = []
    for size in draw(st.lists(st.integers(0, 5), max_size=4)):
        arrays = [
            pa.array(draw(st.lists(nullable(made), min_size=size, max_size=size)), kind)
            for kind, made in kinds
        ]
        chunks.append(pa.record_batch(arrays, schema=schema))
    return pa.Table.from_batches(chunks, schema=schema)


def make_arrow_converter(schema: pa.Schema) -> arrow.PyarrowBatchConverter:
    """Returns the converter for the rows of a table with this schema."""
    fields = arrow.beam_schema_from_arrow_schema(schema)
    row_type = schema_pb2.RowType(schema=fields)
    return arrow.PyarrowBatchConverter(
        typing_from_runner_api(schema_pb2.FieldType(row_type=row_type))
    )


def describe(value: Any) -> Any:
    """Returns a description that tells values apart by type, order, sign and NaN."""
    if isinstance(value, dict):
        return type(value), [(describe(key), describe(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [describe(part) for part in value]
    return type(value), repr(value)


def check_equal_elements(converter: BatchConverter, batch: Any) -> None:
    explode = make_explode_function(converter)
    assert explode.__name__ == "explode"
    expected = [describe(element) for element in converter.explode_batch(batch)]
    assert [describe(element) for element in explode(batch)] == expected


@given(tables())
def test_table_has_elements_of_beam_converter(table: pa.Table) -> None:
    check_equal_elements(make_arrow_converter(table.schema), table)


@pytest.mark.parametrize("rows", [4095, 4096, 4097, 10_000])
def test_large_table_has_elements_of_beam_converter(rows: int) -> None:
    table = pa.table({"name": [f"name {n}" for n in range(rows)], "count": range(rows)})
    check_equal_elements(make_arrow_converter(table.schema), table)


def test_wide_rows_are_converted_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "PIECE_BYTES", 1000)
    table = pa.table({"name": ["x" * 250] * 10})
    parts = [len(names) for (names,) in batches._split_table(table)]
    assert sum(parts) == 10
    assert max(parts) <= 4
    check_equal_elements(make_arrow_converter(table.schema), table)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"name": ["a", "b"], "count": [1, 2]}).select([]),
        pa.table({"name": ["a"], "count": [1], "more": [2]}),
    ],
)
def test_table_with_other_columns_passes_through_beam_converter(table: pa.Table) -> None:
    converter = arrow.PyarrowBatchConverter(RowTypeConstraint.from_user_type(Item))
    check_equal_elements(converter, table)


def test_table_without_a_column_fails_as_in_beam() -> None:
    converter = arrow.PyarrowBatchConverter(RowTypeConstraint.from_user_type(Item))
    with pytest.raises(TypeError, match="count"):
        list(make_explode_function(converter)(pa.table({"name": ["a"]})))


def test_record_batch_passes_through_beam_converter() -> None:
    converter = arrow.PyarrowBatchConverter(RowTypeConstraint.from_user_type(Item))
    batch = pa.record_batch({"name": ["a"], "count": [1]})
    assert list(make_explode_function(converter)(batch)) == [Item("a", 1)]


@pytest.mark.parametrize(
    "converter",
    [
        ListBatchConverter(list, int),
        NumpyBatchConverter(numpy.ndarray, int, numpy.int64),
        arrow.PyarrowArrayBatchConverter(int),
    ],
)
def test_batches_of_values_pass_through_beam_converter(converter: BatchConverter) -> None:
    assert make_explode_function(converter) == converter.explode_batch


class Strange(arrow.PyarrowBatchConverter):
    """A converter of a user, which derives from Beam's."""


def test_derived_converter_is_not_replaced() -> None:
    converter = Strange(RowTypeConstraint.from_user_type(Item))
    assert make_explode_function(converter) == converter.explode_batch


class Derived(Item):
    def __new__(cls, name: str, count: int) -> Derived:
        return super().__new__(cls, name.upper(), count)


class ByHand(tuple):
    """A named tuple whose constructor has other parameters."""

    _fields = ("name", "count")

    def __new__(cls, count: int, name: str) -> ByHand:
        return tuple.__new__(cls, (name, count))


@pytest.mark.parametrize(
    ("kind", "is_plain"),
    [(Item, True), (Derived, False), (ByHand, False), (dict, False), (None, False)],
)
def test_only_plain_named_tuples_are_made_by_position(kind: Any, is_plain: bool) -> None:
    assert is_plain_named_tuple(kind, ["name", "count"]) == is_plain


def test_named_tuple_with_fields_in_another_order_is_not_plain() -> None:
    assert not is_plain_named_tuple(Item, ["count", "name"])


pandas = pytest.importorskip("pandas")
DTYPES: Mapping[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(
        ["int8", "Int8", "object", "float16", "float32", "Float32"], st.integers(-9, 9)
    ),
    **dict.fromkeys(["int64", "Int64"], st.integers(-(2**63), 2**63 - 1)),
    **dict.fromkeys(["int16", "int32", "Int16", "Int32"], st.integers(-(2**15), 2**15 - 1)),
    **dict.fromkeys(["uint8", "UInt64"], st.integers(0, 255)),
    **dict.fromkeys(["float64", "Float64", "complex128"], st.floats()),
    **dict.fromkeys(["bool", "boolean"], st.booleans()),
    **dict.fromkeys(["string", "category"], st.text(max_size=3)),
    **dict.fromkeys(["datetime64[ns]", "timedelta64[ns]"], st.integers(-(2**40), 2**40)),
    "datetime64[ns, UTC]": st.datetimes(
        datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)
    ),
}
"""Values that fit into the data types of pandas."""
_NULLABLE = frozenset({"object", "string", "category", "boolean", "datetime64[ns]"})
OBJECTS = st.one_of(
    st.none(), st.text(), st.floats(), st.decimals(), st.lists(st.integers()), st.just(pandas.NaT)
)


@st.composite
def frames(draw: st.DrawFn) -> Any:
    size = draw(st.integers(0, 5))
    series = {}
    for place, dtype in enumerate(draw(st.lists(st.sampled_from(sorted(DTYPES)), min_size=1))):
        values = OBJECTS if dtype == "object" else DTYPES[dtype]
        if dtype in _NULLABLE or dtype[0].isupper():
            values = nullable(values)
        made = draw(st.lists(values, min_size=size, max_size=size))
        series[f"field{place}"] = pandas.Series(made, dtype=dtype)
    return pandas.DataFrame(series, index=range(3, 3 + size))


def make_pandas_converter(frame: Any) -> BatchConverter:
    from apache_beam.typehints import pandas_type_compatibility

    fields = [(name, Any) for name in frame.columns]
    return pandas_type_compatibility.DataFrameBatchConverterDropIndex(
        RowTypeConstraint.from_fields(fields)
    )


@given(frames())
def test_frame_has_elements_of_beam_converter(frame: Any) -> None:
    check_equal_elements(make_pandas_converter(frame), frame)


def test_large_frame_has_elements_of_beam_converter() -> None:
    frame = pandas.DataFrame({"number": range(10_000), "half": [n / 2 for n in range(10_000)]})
    frame.loc[5000, "half"] = None
    check_equal_elements(make_pandas_converter(frame), frame)


def test_frame_with_a_repeated_column_passes_through_beam_converter() -> None:
    frame = pandas.DataFrame([[1, 2], [3, 4]], columns=["name", "count"])
    converter = make_pandas_converter(frame)
    frame.columns = ["name", "name"]
    check_equal_elements(converter, frame)


def test_decimals_in_a_frame_stay_decimals() -> None:
    frame = pandas.DataFrame({"price": [decimal.Decimal("1.10"), None]}, dtype=object)
    (first, second) = make_explode_function(make_pandas_converter(frame))(frame)
    assert (first.price, second.price) == (decimal.Decimal("1.10"), None)
