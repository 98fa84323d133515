"""Selection of the columns that a sink writes to a table, from the table's columns and the declared
columns of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def choose_columns(
    name: str, table: pa.Schema, declared: pa.Schema | None, *, adds_columns: bool
) -> pa.Schema:
    """Returns the columns of files for a table, in the order of the declared columns.

    Args:
        name: the name of the table, for errors.
        table: the columns of the table, which define the types.
        declared: the columns that the rows declare; None if they have all columns of the table.
        adds_columns: whether new columns are added to the table.

    Raises:
        ValueError: The table lacks a column, or the rows lack one that can't be null.
    """
    if declared is None:
        return table
    unknown = find_new_columns(table, declared)
    if unknown and not adds_columns:
        raise ValueError(
            f"the table {name} has no column {unknown[0].name!r}: add the column to the table, set"
            " add_columns=True, or remove the field from the rows"
        )
    for field in table:
        if not field.nullable and field.name not in declared.names:
            raise ValueError(
                f"the column {field.name!r} of the table {name} must not contain nulls, but the "
                "rows"
                " have no such field"
            )
    known = set(table.names)
    return pa.schema(
        [table.field(field.name) if field.name in known else field for field in declared]
    )


def find_new_columns(table: pa.Schema, declared: pa.Schema) -> list[pa.Field]:
    """Returns the declared columns that a table doesn't have."""
    known = set(table.names)
    return [field for field in declared if field.name not in known]


def simplify_columns(schema: pa.Schema) -> pa.Schema:
    """Returns the columns without metadata, and with the types that rows use for long values."""
    return pa.schema([_simplify_field(field) for field in schema])


def _simplify_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _simplify_type(field.type), field.nullable)


def _simplify_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_simplify_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_simplify_type(kind.key_type), _simplify_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_simplify_field(field) for field in kind])
    return kind


def keep_last_row_per_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Returns the last row of each key.

    Raises:
        ValueError: A key has a null.
    """
    for name in key:
        if rows.column(name).null_count:
            raise ValueError(f"a row has None in {name!r}, which is a column of the key")
    numbered = rows.select(list(key)).append_column(
        "beam_row_number", pa.array(range(len(rows)), pa.int64())
    )
    last = numbered.group_by(list(key)).aggregate([("beam_row_number", "max")])
    return rows.take(last.column("beam_row_number_max").sort())
