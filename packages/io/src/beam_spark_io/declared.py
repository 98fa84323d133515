"""Which columns rows have, as far as anybody tells when a pipeline is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from beam_runner_planner.table_specs import WrongTable

from beam_spark_io.schemas import arrow_of_spark, arrow_schema
from beam_spark_io.sessions import session_here


def columns_of(schema: Any) -> pa.Schema:
    """The columns that a user declares.

    Raises:
        WrongTable: they are declared by something else than a schema.
        UnknownType: a column has a type that Spark does not have.
    """
    declared = arrow_schema(schema)
    if declared is None:
        raise WrongTable(
            f"schema is a NamedTuple, a pyarrow.Schema or a StructType, not {schema!r}"
        )
    return declared


def asked(frame: Callable[[Any], Any]) -> pa.Schema | None:
    """The columns that a DataFrame of this process's Spark session has; None if there is no session.

    Args:
        frame: makes it, of the session.

    Raises:
        Exception: whatever Spark has to say against it.
    """
    session = session_here()
    return None if session is None else arrow_of_spark(frame(session).schema.json())


def picked(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Of the columns those that are wanted, in the order in which they are.

    Raises:
        WrongTable: one is not there.
    """
    if not columns:
        return schema
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise WrongTable(f"there is no column {missing[0]!r} in schema")
    return pa.schema([schema.field(name) for name in columns])
