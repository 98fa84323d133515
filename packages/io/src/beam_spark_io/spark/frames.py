"""Spark DataFrames of table and stream sources, for batch and streaming reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from beam_runner_planner.table_specs import VIEW, InvalidTableSpec, StreamSource, TableSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_BY_SCHEMA = frozenset({"csv", "json", "text"})
"""Formats without column types, for which the user must give the schema."""
_ALIKE = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "an integer"),
    **dict.fromkeys(("float", "double"), "a floating point number"),
}


def read_frame(session: SparkSession, source: TableSource) -> DataFrame:
    """Returns the DataFrame of a source, with the selected columns.

    Raises:
        InvalidTableSpec: The columns of the table differ from the declared columns.
        Exception: any error of Spark.
    """
    return _select_wanted_columns(_read_whole_source(session, source), source)


def read_stream_frame(session: SparkSession, source: StreamSource) -> DataFrame:
    """Returns the streaming DataFrame of a source, with the selected columns.

    Raises:
        InvalidTableSpec: The columns of the table differ from the declared columns, or the timestamp column doesn't
            exist.
        Exception: any error of Spark.
    """
    reader = session.readStream.format(source.format).options(**source.size_limits)
    reader = reader.options(**source.options)
    if source.schema and source.has_files:
        reader = reader.schema(parse_struct_type(source.schema))
    frame = _select_wanted_columns(
        reader.load(source.path) if source.path else reader.load(), source
    )
    if not source.timestamp:
        return frame
    types = {field["name"]: field["type"] for field in json.loads(frame.schema.json())["fields"]}
    found = types.get(source.timestamp)
    if found is None:
        raise InvalidTableSpec(
            f"the timestamp column {source.timestamp!r} is missing from {source.name},"
            f" which has {', '.join(types)}"
        )
    if found != "timestamp":
        raise InvalidTableSpec(
            f"the timestamp column {source.timestamp!r} of {source.name} has the Spark"
            f" type {_format_type_name(found)}; expected timestamp"
        )
    return frame


def parse_struct_type(schema: str) -> StructType:
    """Returns Spark's row type for a schema as JSON."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema))


def quote_column(name: str) -> str:
    """Returns a column's name quoted for expressions."""
    return f"`{name.replace('`', '``')}`"


def _select_wanted_columns(frame: DataFrame, source: TableSource) -> DataFrame:
    declared = json.loads(source.schema)["fields"] if source.schema else []
    if source.where:
        frame = frame.where(source.where)
    wanted = source.columns or tuple(field["name"] for field in declared)
    if wanted:
        missing = _find_missing_columns(wanted, frame)
        if missing:
            raise InvalidTableSpec(
                f"the column {missing[0]!r} is missing from {source.name}, which has"
                f" {', '.join(frame.columns)}"
            )
        frame = frame.select(*map(quote_column, wanted))
    types = {field["name"]: field["type"] for field in declared}
    for field in json.loads(frame.schema.json())["fields"]:
        name, found = field["name"], field["type"]
        if name in types and not _is_same_python_type(types[name], found):
            raise InvalidTableSpec(
                f"the column {name!r} of {source.name} has the Spark type"
                f" {_format_type_name(found)}, but is declared as {_format_type_name(types[name])}"
            )
    return frame


def _read_whole_source(session: SparkSession, source: TableSource) -> DataFrame:
    if source.sql:
        # This parser accepts only queries. Spark would execute a command immediately, with its side effects.
        session._jsparkSession.sessionState().sqlParser().parseQuery(source.sql)
        return session.sql(source.sql)
    reader = session.read.options(**source.options)
    if source.table:
        if VIEW in source.table and not session.catalog.tableExists(source.table):
            raise InvalidTableSpec(
                "the DataFrame belongs to another Spark than the server's:"
                " from_dataframe works only in programs on whose SparkSession"
                " BeamSparkRunner runs. Write the DataFrame to files, and read these"
                " files"
            )
        return reader.table(source.table)
    reader = reader.format(source.format)
    if source.schema and source.format in _BY_SCHEMA:
        reader = reader.schema(parse_struct_type(source.schema))
    return reader.load(source.path) if source.path else reader.load()


def _find_missing_columns(wanted: tuple[str, ...], frame: DataFrame) -> list[str]:
    # Spark ignores case in names by default.
    known = {name.lower() for name in frame.columns}
    return [name for name in wanted if name.lower() not in known]


def _is_same_python_type(declared: Any, found: Any) -> bool:
    """Returns whether values of these two Spark types are the same in Python."""
    if isinstance(declared, str) or isinstance(found, str):
        return _find_type_kind(declared) == _find_type_kind(found)
    if declared["type"] != found["type"]:
        return False
    ours, theirs = list(_iterate_nested_types(declared)), list(_iterate_nested_types(found))
    return len(ours) == len(theirs) and all(
        one == other and _is_same_python_type(a, b)
        for (one, a), (other, b) in zip(ours, theirs, strict=True)
    )


def _iterate_nested_types(told: Any) -> Iterator[tuple[str, Any]]:
    """Returns the names and types of the parts of a nested type."""
    if told["type"] == "struct":
        for field in told["fields"]:
            yield field["name"], field["type"]
    for part in ("elementType", "keyType", "valueType"):
        if part in told:
            yield part, told[part]


def _find_type_kind(told: Any) -> str:
    if not isinstance(told, str):
        return str(told["type"])
    name = told.partition("(")[0]
    if name in ("char", "varchar") or name.startswith("string"):
        return "string"
    return _ALIKE.get(name, name)


def _format_type_name(told: Any) -> str:
    return told if isinstance(told, str) else str(told["type"])
