"""Data files of a Delta table: writes Parquet files, and describes them (partition, size,
statistics) for a later commit.

The `deltalake` library can't write files for a later commit, so this module writes them. The names
of files don't contain partition values, because the table's log contains them.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_MOST_STATISTICS = 32
"""Maximum number of columns with statistics, the same as in other writers of Delta tables."""
_LONGEST_TEXT = 32
"""Maximum number of characters of a string in the statistics."""
_AFTER_ALL_TEXTS = "\U0010ffff"
"""Last character of Unicode. Appended to a prefix, it gives an upper bound of all strings with the prefix."""


@attrs.frozen
class DeltaFile:
    """File that a writer has stored, and that a commit adds to the table.

    Attributes:
        path: the name relative to the table.
        size: bytes.
        partition: the value of each partition column as text; None for null.
        modified: the time of the write, in milliseconds since 1970.
        statistics: bounds and nulls of columns, as JSON of the table's log.
        columns: names and types of the columns, with those of the partition.
    """

    path: str
    size: int
    partition: Mapping[str, str | None]
    modified: int
    rows: int
    statistics: str
    columns: tuple[tuple[str, str], ...]


def write_files(
    rows: pa.Table, partition_by: Sequence[str], files: Any, run: str
) -> list[DeltaFile]:
    """Writes rows to one file for each partition. The names differ between attempts.

    Args:
        files: pyarrow's file system of the table's folder.
        run: the name of the job's write, which the file names contain.

    Raises:
        OSError: The storage doesn't answer.
    """
    columns = describe_columns(rows.schema)
    written = []
    for partition, part in _split_rows(rows, partition_by):
        path = f"part-{run}-{uuid.uuid4()}.parquet"
        with files.open_output_stream(path) as target:
            pq.write_table(part, target)
        written.append(
            DeltaFile(
                path=path,
                size=files.get_file_info(path).size,
                partition=partition,
                modified=int(time.time() * 1000),
                rows=part.num_rows,
                statistics=make_statistics(part),
                columns=columns,
            )
        )
    return written


def describe_columns(schema: pa.Schema) -> tuple[tuple[str, str], ...]:
    """Returns names and types of columns, which the commit compares with the current columns of the table."""
    return tuple((field.name, str(field.type)) for field in schema)


def can_partition_by(kind: pa.DataType) -> bool:
    """Returns whether this module supports a type for partition columns."""
    return (
        pa.types.is_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
    )


def _split_rows(
    rows: pa.Table, partition_by: Sequence[str]
) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    if not partition_by:
        yield {}, rows
        return
    names = list(partition_by)
    rest = [name for name in rows.column_names if name not in names]
    for values in rows.select(names).group_by(names).aggregate([]).to_pylist():
        chosen = None
        for name, value in values.items():
            column = rows.column(name)
            equal = (
                pc.is_null(column)
                if value is None
                else pc.fill_null(pc.equal(column, value), False)
            )
            chosen = equal if chosen is None else pc.and_(chosen, equal)
        partition = {name: _format_value(value) for name, value in values.items()}
        yield partition, rows.filter(chosen).select(rest)


def _format_value(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    # Delta's format can't represent an empty string as a partition value, because an empty string means null.
    return None if value is None or value == "" else str(value)


def make_statistics(rows: pa.Table) -> str:
    """Returns the number of rows, and bounds and nulls of simple columns, as JSON of the table's log."""
    lows: dict[str, str] = {}
    highs: dict[str, str] = {}
    nulls: dict[str, str] = {}
    for name in rows.column_names[:_MOST_STATISTICS]:
        column = rows.column(name)
        kind = column.type
        if not (pa.types.is_nested(kind) or pa.types.is_binary(kind)):
            nulls[name] = str(column.null_count)
            bounds = _find_bounds(column)
            if bounds is not None:
                lows[name], highs[name] = bounds
    parts = (("minValues", lows), ("maxValues", highs), ("nullCount", nulls))
    values = {"numRecords": str(rows.num_rows)}
    return _join_json({**values, **{name: _join_json(part) for name, part in parts}})


def _join_json(values: Mapping[str, str]) -> str:
    """Returns a JSON object from values that are already JSON, because Python's json module can't
    write exact decimals.
    """
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in values.items()) + "}"


def _find_bounds(column: pa.ChunkedArray) -> tuple[str, str] | None:
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        return None
    found = pc.min_max(column).as_py()
    low, high = found["min"], found["max"]
    if low is None:
        return None
    if isinstance(high, float) and not (math.isfinite(low) and math.isfinite(high)):
        return None
    if isinstance(high, str):
        low = low[:_LONGEST_TEXT]
        high = high if len(high) <= _LONGEST_TEXT else high[:_LONGEST_TEXT] + _AFTER_ALL_TEXTS
    return _format_bound(low), _format_bound(high)


def _format_bound(value: Any) -> str:
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return json.dumps(text if value.tzinfo is None else f"{text}Z")
    if isinstance(value, datetime.date):
        return json.dumps(value.isoformat())
    return json.dumps(value)
