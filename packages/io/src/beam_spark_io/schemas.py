"""Types of columns: Python types as in Beam's schemas, Arrow types, and Spark types as JSON.

| Spark | Python |
|---|---|
| byte, short, int, long | ``int`` |
| float, double | ``float`` |
| decimal(p, s) | ``decimal.Decimal``; if only the Python type is known, decimal(38, 18) |
| string, binary, boolean | ``str``, ``bytes``, ``bool`` |
| date | ``datetime.date`` |
| timestamp | ``apache_beam.utils.timestamp.Timestamp`` |
| timestamp_ntz | ``datetime.datetime`` |
| array, map, struct | ``list``, ``dict``, ``beam.Row`` |
| any nullable type | ``Optional`` |
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, get_type_hints

import numpy as np
import pyarrow as pa
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import (
    convert_to_beam_type,
    match_is_named_tuple,
)
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp

_INSTANT = pa.timestamp("us", "UTC")
_ARROW_OF_PYTHON: Mapping[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    decimal.Decimal: pa.decimal128(38, 18),
    datetime.date: pa.date32(),
    datetime.datetime: pa.timestamp("us"),
    Timestamp: _INSTANT,
    np.int8: pa.int8(),
    np.int16: pa.int16(),
    np.int32: pa.int32(),
    np.int64: pa.int64(),
    np.float32: pa.float32(),
    np.float64: pa.float64(),
}
_SPARK_OF_ARROW: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    _INSTANT: "timestamp",
}
_ARROW_OF_SPARK = {spark: arrow for arrow, spark in _SPARK_OF_ARROW.items()}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_TEXT = re.compile(r"(var)?char\(\d+\)|string .*")


class UnknownType(ValueError):
    """A column has a type that Beam rows or Spark don't support; the text names the column and the type."""


def make_declared_arrow_schema(declared: Any) -> pa.Schema | None:
    """Returns the columns that a pipeline declares; None if the pipeline declares no columns.

    Args:
        declared: a NamedTuple, the element type of rows in Beam, or a schema of Arrow or Spark.

    Raises:
        UnknownType: Spark has no type for a column.
    """
    if isinstance(declared, pa.Schema):
        return declared
    if hasattr(declared, "jsonValue"):
        return convert_spark_to_arrow(declared.json())
    fields = _list_row_fields(declared)
    return None if fields is None else pa.schema(list(_make_arrow_schema(fields)))


def convert_spark_to_arrow(schema: str) -> pa.Schema:
    """Returns the columns of a schema that is given as Spark's JSON.

    Raises:
        UnknownType: rows don't support a column's type.
    """
    return pa.schema([_convert_spark_field(field) for field in json.loads(schema)["fields"]])


def convert_arrow_to_spark(schema: pa.Schema) -> str:
    """Returns the columns as Spark's JSON.

    Raises:
        UnknownType: Spark has no type for a column.
    """
    fields = [_make_spark_field(field) for field in schema]
    return json.dumps({"type": "struct", "fields": fields})


def make_row_type(schema: pa.Schema) -> RowTypeConstraint:
    """Returns the element type of rows with these columns.

    Raises:
        UnknownType: rows don't support a column's type.
    """
    fields = []
    for field in schema:
        try:
            fields.append((field.name, _find_python_type_of_field(field)))
        except UnknownType as error:
            raise UnknownType(f"the column {field.name!r} {error}") from None
    return RowTypeConstraint.from_fields(fields)


_Fields: TypeAlias = Sequence[tuple[str, Any]]


def _list_row_fields(declared: Any) -> _Fields | None:
    """Returns the names and types of a row's fields; None if the type is not a row."""
    is_row = isinstance(declared, RowTypeConstraint)
    named = declared.user_type if is_row else declared
    if is_row and not any(isinstance(hint, str) for hint in named.__annotations__.values()):
        return declared._fields
    # Resolve annotations that are strings, because Beam doesn't resolve them.
    return list(get_type_hints(named).items()) if match_is_named_tuple(named) else None


def _make_arrow_schema(declared_fields: _Fields) -> pa.StructType:
    fields = []
    for name, declared in declared_fields:
        try:
            fields.append(_make_arrow_field(name, declared))
        except UnknownType as error:
            raise UnknownType(f"the column {name!r} {error}") from None
    return pa.struct(fields)


def _make_arrow_field(name: str, declared: Any) -> pa.Field:
    """Returns the column for a Python type."""
    hint = convert_to_beam_type(declared)
    nullable = typehints.is_nullable(hint)
    if nullable:
        hint = typehints.get_concrete_type_from_nullable(hint)
    return pa.field(name, _make_arrow_type(hint), nullable)


def _make_arrow_type(hint: Any) -> pa.DataType:
    known = _ARROW_OF_PYTHON.get(hint) if isinstance(hint, type) else None
    if known is not None:
        return known
    fields = _list_row_fields(hint)
    if fields is not None:
        return _make_arrow_schema(fields)
    if isinstance(hint, typehints.SequenceTypeConstraint):
        return pa.list_(_make_arrow_field("element", hint.inner_type))
    if isinstance(
        hint, typehints.DictHint.DictConstraint | typehints.MappingHint.MappingTypeConstraint
    ):
        values = _make_arrow_field("value", hint.value_type)
        return pa.map_(_make_arrow_type(convert_to_beam_type(hint.key_type)), values)
    raise UnknownType(
        f"has the type {hint}, which Spark doesn't support: declare the columns by"
        " schema=, as a NamedTuple or a pyarrow.Schema"
    )


def _find_python_type_of_field(field: pa.Field) -> Any:
    python = _make_python_type(field.type)
    return typehints.Optional[python] if field.nullable else python


def _make_python_type(arrow: pa.DataType) -> Any:
    if pa.types.is_integer(arrow):
        return int
    if pa.types.is_floating(arrow):
        return float
    if pa.types.is_decimal(arrow):
        return decimal.Decimal
    if pa.types.is_struct(arrow):
        return make_row_type(pa.schema(list(arrow)))
    if pa.types.is_map(arrow):
        return typehints.Mapping[
            _make_python_type(arrow.key_type), _find_python_type_of_field(arrow.item_field)
        ]
    if pa.types.is_list(arrow):
        return typehints.Sequence[_find_python_type_of_field(arrow.value_field)]
    for python, known in _ARROW_OF_PYTHON.items():
        if known == arrow:
            return python
    raise UnknownType(f"has the Arrow type {arrow}, which rows don't support")


def _make_spark_field(field: pa.Field) -> dict[str, Any]:
    try:
        told = _make_spark_type(field.type)
    except UnknownType as error:
        raise UnknownType(f"the column {field.name!r} {error}") from None
    return {"name": field.name, "type": told, "nullable": field.nullable, "metadata": {}}


def _make_spark_type(arrow: pa.DataType) -> Any:
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_struct(arrow):
        return {"type": "struct", "fields": [_make_spark_field(field) for field in arrow]}
    if pa.types.is_map(arrow):
        return {
            "type": "map",
            "keyType": _make_spark_type(arrow.key_type),
            "valueType": _make_spark_type(arrow.item_type),
            "valueContainsNull": arrow.item_field.nullable,
        }
    if pa.types.is_list(arrow):
        return {
            "type": "array",
            "elementType": _make_spark_type(arrow.value_type),
            "containsNull": arrow.value_field.nullable,
        }
    known = _SPARK_OF_ARROW.get(arrow)
    if known is None:
        raise UnknownType(f"has the Arrow type {arrow}, which Spark doesn't support")
    return known


def _convert_spark_field(field: Mapping[str, Any]) -> pa.Field:
    try:
        return pa.field(field["name"], _convert_spark_type(field["type"]), field["nullable"])
    except UnknownType as error:
        raise UnknownType(f"the column {field['name']!r} {error}") from None


def _convert_spark_type(told: Any) -> pa.DataType:
    if isinstance(told, str):
        found = _DECIMAL.fullmatch(told)
        if found:
            return pa.decimal128(int(found[1]), int(found[2]))
        arrow = _ARROW_OF_SPARK.get("string" if _TEXT.fullmatch(told) else told)
        if arrow is None:
            raise UnknownType(
                f"has the Spark type {told}, which rows don't support: exclude the"
                " column by columns="
            )
        return arrow
    if told["type"] == "struct":
        return pa.struct([_convert_spark_field(field) for field in told["fields"]])
    if told["type"] == "array":
        return pa.list_(
            pa.field("element", _convert_spark_type(told["elementType"]), told["containsNull"])
        )
    if told["type"] == "map":
        values = pa.field(
            "value", _convert_spark_type(told["valueType"]), told["valueContainsNull"]
        )
        return pa.map_(_convert_spark_type(told["keyType"]), values)
    raise UnknownType(
        "has a user-defined type, which rows don't support: exclude the column by columns="
    )
