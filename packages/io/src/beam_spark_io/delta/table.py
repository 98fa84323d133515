"""Operations on Delta tables for sinks: open, create, check, and add columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import attrs
import pyarrow as pa

from beam_spark_io.delta.files import DeltaFile, can_partition_by, describe_columns
from beam_spark_io.delta.storage import load_table, open_storage
from beam_spark_io.exactly_once.protocols import CommitConflict
from beam_spark_io.tables.columns import (
    choose_columns,
    find_new_columns,
    simplify_columns,
)
from beam_spark_io.tables.modes import OVERWRITE_PARTITIONS, UPSERT

_GENERATED = ("delta.generationExpression", "delta.invariants", "delta.identity.start")
"""Column metadata keys of features (such as generated columns) that the library applies only to
rows that it writes itself.
"""


@attrs.frozen
class DeltaTarget:
    """Table and kind of a write.

    Attributes:
        url: address of the table.
        mode: ``append``, ``overwrite``, ``overwrite_partitions`` or ``upsert``.
        declared: the columns of the rows; None for those of the table.
        partition_by: partition columns of a table that doesn't exist yet.
        key: columns that identify a row of an upsert.
        adds_columns: whether the write adds columns to the table.
        storage_options: options of the table's storage.
    """

    url: str
    mode: str
    declared: pa.Schema | None
    partition_by: tuple[str, ...]
    key: tuple[str, ...]
    adds_columns: bool
    storage_options: Mapping[str, str]


def open_table(target: DeltaTarget) -> Any:
    """Opens a Delta table; returns None if the table doesn't exist."""
    from deltalake.exceptions import TableNotFoundError

    try:
        return load_table(target.url, target.storage_options)
    except TableNotFoundError:
        return None


def open_files(target: DeltaTarget) -> Any:
    """Returns pyarrow's file system for the table's folder, even if the table doesn't exist yet."""
    parts = urlsplit(target.url)
    if parts.scheme in ("", "file"):
        folder = url2pathname(parts.path) if parts.scheme else target.url
        Path(folder).mkdir(parents=True, exist_ok=True)
    return open_storage(target.url, target.storage_options)


def create_table(target: DeltaTarget) -> Any:
    """Creates the table, unless another process has created the table meanwhile.

    Raises:
        ValueError: The rows declare no columns.
    """
    from deltalake import DeltaTable

    return DeltaTable.create(
        target.url,
        _make_delta_schema(_require_declared(target)),
        mode="ignore",
        partition_by=list(target.partition_by),
        storage_options=dict(target.storage_options),
    )


def _require_declared(target: DeltaTarget) -> pa.Schema:
    if target.declared is None:
        raise ValueError(
            f"the Delta table {target.url} doesn't exist, and the rows declare no columns: create"
            " the table, set schema=, or declare a NamedTuple by with_output_types()"
        )
    return target.declared


def _make_delta_schema(columns: pa.Schema) -> Any:
    from deltalake import Schema

    return Schema.from_arrow(columns)


def read_declared_columns(target: DeltaTarget) -> pa.Schema | None:
    """Returns the declared columns, with the types that a Delta table uses; None without declared
    columns.
    """
    if target.declared is None:
        return None
    return simplify_columns(pa.schema(_make_delta_schema(target.declared).to_arrow()))


def read_columns(table: Any) -> pa.Schema:
    """Returns the columns of the table."""
    return simplify_columns(pa.schema(table.schema().to_arrow()))


def choose_file_columns(target: DeltaTarget, table: Any) -> tuple[pa.Schema, Sequence[str]]:
    """Returns the columns of data files, and the names of the partition columns.

    Raises:
        ValueError: The rows don't fit the table.
    """
    declared = read_declared_columns(target)
    if table is None:
        columns, partition_by = declared or _require_declared(target), target.partition_by
    else:
        check_table(table, target)
        partition_by = tuple(table.metadata().partition_columns)
        columns = choose_columns(
            target.url, read_columns(table), declared, adds_columns=target.adds_columns
        )
    for name in partition_by:
        if name not in columns.names or not can_partition_by(columns.field(name).type):
            raise ValueError(
                f"{name!r} is a partition column of {target.url}; the rows need such a field with"
                " strings, integers, booleans or dates"
            )
    return columns, partition_by


def check_table(table: Any, target: DeltaTarget) -> None:
    """Raises an error for tables with features (such as generated columns) that only the library's
    own writer supports.

    Raises:
        ValueError: The table has such a rule, or other partition columns.
    """
    partition_by = tuple(table.metadata().partition_columns)
    if target.partition_by and target.partition_by != partition_by:
        raise ValueError(
            f"the table {target.url} has the partition columns {list(partition_by)}, but"
            f" partition_by is {list(target.partition_by)}"
        )
    if target.mode == UPSERT:
        return
    settings = table.metadata().configuration
    rules = [name for name in settings if name.startswith("delta.constraints.")]
    if settings.get("delta.columnMapping.mode", "none") != "none":
        rules.append("delta.columnMapping.mode")
    if settings.get("delta.enableRowTracking", "false") == "true":
        rules.append("delta.enableRowTracking")
    for field in table.schema().fields:
        rules += [name for name in _GENERATED if name in (field.metadata or {})]
    if rules:
        raise ValueError(
            f"the table {target.url} has {rules[0]}, which WriteToDelta doesn't support in the mode"
            f" {target.mode!r}"
        )


def add_columns(table: Any, target: DeltaTarget) -> Any:
    """Adds the declared columns that the table doesn't have. Returns the table with these columns."""
    from deltalake import Field

    declared = read_declared_columns(target)
    if declared is None or not target.adds_columns:
        return table
    new = find_new_columns(read_columns(table), declared)
    if not new:
        return table
    fields = _make_delta_schema(pa.schema(new)).fields
    table.alter.add_columns([Field(one.name, one.type, nullable=True) for one in fields])
    return open_table(target)


def check_files(url: str, columns: pa.Schema, files: Sequence[DeltaFile]) -> None:
    """Raises an error if the table's columns have changed since the writers stored the files.

    Raises:
        CommitConflict: A column is missing, or has another type.
    """
    known = set(describe_columns(columns))
    for file in files:
        for name, kind in file.columns:
            if (name, kind) not in known:
                raise CommitConflict(
                    f"the table {url} had a column {name!r} of type {kind} when rows were stored,"
                    " and has changed since then. Start a new job"
                )


def filter_partitions(
    target: DeltaTarget, partition_by: Sequence[str], files: Sequence[DeltaFile]
) -> list[tuple[str, str, Any]] | None:
    """Returns the filter that selects the partitions that an overwrite replaces; None to replace
    the complete table.

    Raises:
        ValueError: The library can't filter by these partitions.
    """
    if target.mode != OVERWRITE_PARTITIONS:
        return None
    if len(partition_by) != 1:
        raise ValueError(
            f"the table {target.url} has {len(partition_by)} partition columns; the mode"
            f" {OVERWRITE_PARTITIONS!r} supports tables with exactly one"
        )
    values = {file.partition[partition_by[0]] for file in files}
    if None in values:
        raise ValueError(
            f"a row has no value of {partition_by[0]!r}; the mode {OVERWRITE_PARTITIONS!r} doesn't"
            " support null as a partition"
        )
    return [(partition_by[0], "in", sorted(value for value in values if value is not None))]
