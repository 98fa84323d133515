"""Columns of rows (names and types) that are known when a pipeline is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from beam_runner_planner.table_specs import InvalidTableSpec

from beam_spark_io.schemas import convert_spark_to_arrow, make_declared_arrow_schema
from beam_spark_io.sessions import find_session


def list_declared_columns(schema: Any) -> pa.Schema:
    """Returns the columns that a user declares.

    Raises:
        InvalidTableSpec: the declaration is not a schema.
        UnknownType: Spark has no type for a column.
    """
    declared = make_declared_arrow_schema(schema)
    if declared is None:
        raise InvalidTableSpec(
            f"schema is {schema!r}; expected a NamedTuple, a pyarrow.Schema or a StructType"
        )
    return declared


def list_dataframe_columns(frame: Callable[[Any], Any]) -> pa.Schema | None:
    """Returns the columns of a DataFrame of this process's Spark session; None if no session exists.

    Args:
        frame: function that makes the DataFrame from the session.

    Raises:
        Exception: any error of Spark.
    """
    session = find_session()
    return None if session is None else convert_spark_to_arrow(frame(session).schema.json())


def select_columns(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Returns the selected columns in the order of the selection.

    Raises:
        InvalidTableSpec: a selected column doesn't exist.
    """
    if not columns:
        return schema
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise InvalidTableSpec(f"the column {missing[0]!r} is missing from schema")
    return pa.schema([schema.field(name) for name in columns])
