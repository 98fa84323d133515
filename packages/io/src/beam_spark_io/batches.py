"""Arrow batches as elements: batches of a read, and batches that fit the columns of a target."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from beam_runner_data.rows.columns import decode_batch

_PIECE_BYTES = 1 << 20
"""The approximate size in bytes of the pieces into which a large batch is divided."""


def decode_nonempty_batch(blob: bytes) -> list[pa.RecordBatch]:
    """Returns a list with the decoded batch; an empty list if the batch has no rows."""
    batch = decode_batch(blob)
    return [batch] if batch.num_rows else []


def fit_batches(given: pa.RecordBatch | pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a batch or a table in pieces with the columns of a schema, without other columns.

    Raises:
        ValueError: a column is missing, or its values don't fit.
    """
    columns = [_fit_column(given, field) for field in schema]
    table = pa.Table.from_arrays(columns, schema=schema)
    rows = max(1, table.num_rows * _PIECE_BYTES // max(1, table.nbytes))
    return iter(table.to_batches(max_chunksize=rows))


def _fit_column(given: pa.RecordBatch | pa.Table, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    name = field.name
    if given.schema.get_field_index(name) < 0:
        raise ValueError(f"a batch has no column {name!r}, or has it twice")
    column = given.column(name)
    if column.type != field.type:
        wrong = f"the column {name!r} has the type {field.type}, but a batch has {column.type}"
        if _find_kind(column.type) != _find_kind(field.type):
            raise ValueError(wrong)
        try:
            column = column.cast(field.type)
        except pa.ArrowException as error:
            raise ValueError(f"{wrong}: {error}") from error
    if column.null_count and not field.nullable:
        raise ValueError(
            f"the column {name!r} must not contain nulls, but a batch has null: declare"
            " the column as nullable"
        )
    return column


def _find_kind(arrow: pa.DataType) -> str:
    """Returns the kind of a type. Arrow would cast texts to numbers, and rows don't do that."""
    if pa.types.is_dictionary(arrow):
        return _find_kind(arrow.value_type)
    if pa.types.is_boolean(arrow):
        return "boolean"
    if pa.types.is_temporal(arrow):
        return "time"
    is_number = pa.types.is_integer(arrow) or pa.types.is_floating(arrow)
    return "number" if is_number or pa.types.is_decimal(arrow) else "other"
