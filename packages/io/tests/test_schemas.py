"""Tests that all ways to declare column types have the same result."""

from __future__ import annotations

import datetime
import decimal
import json
import typing
from typing import Any

import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp
from pyspark.sql import types

from beam_spark_io.schemas import (
    UnknownType,
    convert_arrow_to_spark,
    convert_spark_to_arrow,
    make_declared_arrow_schema,
    make_row_type,
)


class Inner(typing.NamedTuple):
    name: str


class Every(typing.NamedTuple):
    number: int
    maybe: float | None
    flag: bool
    text: str
    raw: bytes
    price: decimal.Decimal
    day: datetime.date
    local: datetime.datetime
    moment: Timestamp
    many: typing.Sequence[int]
    some: typing.Mapping[str, int | None]
    inner: Inner


SPARK = types.StructType(
    [
        types.StructField("number", types.LongType(), False),
        types.StructField("maybe", types.DoubleType(), True),
        types.StructField("flag", types.BooleanType(), False),
        types.StructField("text", types.StringType(), False),
        types.StructField("raw", types.BinaryType(), False),
        types.StructField("price", types.DecimalType(38, 18), False),
        types.StructField("day", types.DateType(), False),
        types.StructField("local", types.TimestampNTZType(), False),
        types.StructField("moment", types.TimestampType(), False),
        types.StructField("many", types.ArrayType(types.LongType(), False), False),
        types.StructField("some", types.MapType(types.StringType(), types.LongType(), True), False),
        types.StructField(
            "inner",
            types.StructType([types.StructField("name", types.StringType(), False)]),
            False,
        ),
    ]
)


def test_schema_of_named_tuple_equals_spark_schema() -> None:
    columns = make_declared_arrow_schema(Every)
    assert columns == make_declared_arrow_schema(SPARK) == convert_spark_to_arrow(SPARK.json())
    assert types.StructType.fromJson(json.loads(convert_arrow_to_spark(columns))) == SPARK


def test_schema_columns_have_types_of_rows() -> None:
    columns = make_declared_arrow_schema(Every)
    assert make_declared_arrow_schema(make_row_type(columns)) == columns


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (types.StructType([types.StructField("v", types.DayTimeIntervalType())]), "interval"),
        (pa.schema([("v", pa.duration("s"))]), "duration"),
    ],
)
def test_schema_types_unknown_to_rows_or_spark_are_reported_by_column(
    declared: Any, said: str
) -> None:
    with pytest.raises(UnknownType, match=f"the column 'v' .*{said}"):
        columns = make_declared_arrow_schema(declared)
        convert_arrow_to_spark(columns)


def test_schema_of_type_without_fields_is_refused() -> None:
    assert make_declared_arrow_schema(int) is None
