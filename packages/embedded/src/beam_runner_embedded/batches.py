"""Conversion of batches of rows to elements, column by column.

Beam's converters make a Python object of each value of a batch with several calls, and pass the
values of a row by name. Arrow and pandas convert a complete column in a single call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from apache_beam.typehints.batch import BatchConverter
from beam_runner_model.value_pieces import PIECE_BYTES

_MOST_ROWS = 4096
"""Maximum number of rows whose elements exist at the same time, because of a batch."""

Explode = Callable[[Any], Iterable[Any]]
_Columns = list[list[Any]]


def make_explode_function(converter: BatchConverter) -> Explode:
    """Returns a function that returns the elements of a batch, equal to those of ``explode_batch`` in
    value, type and order.

    The function converts Arrow tables and data frames without an index by columns, if the elements
    are named tuples. All other batches pass through ``explode_batch``.
    """
    split: Callable[[Any], Iterator[_Columns]]
    if _is_class(converter, "apache_beam.typehints.arrow_type_compatibility", _ARROW):
        names, split = list(converter._arrow_schema.names), _split_table
    elif _is_class(converter, "apache_beam.typehints.pandas_type_compatibility", _PANDAS):
        names, split = list(converter._columns), _split_frame
    else:
        return converter.explode_batch
    kind = converter.element_type.user_type
    if not names or not is_plain_named_tuple(kind, names):
        return converter.explode_batch

    def explode(batch: Any) -> Iterable[Any]:
        if type(batch) is not converter.batch_type or not _has_exactly_columns(batch, len(names)):
            return converter.explode_batch(batch)
        return chain.from_iterable(map(kind, *columns) for columns in split(batch))

    return explode


_ARROW = "PyarrowBatchConverter"
_PANDAS = "DataFrameBatchConverterDropIndex"


def _is_class(converter: BatchConverter, module: str, name: str) -> bool:
    """Returns True if a class of Beam, whose module may need an uninstalled package, is the class of an object."""
    return type(converter) is getattr(sys.modules.get(module), name, None)


def _has_exactly_columns(batch: Any, count: int) -> bool:
    """Returns True if a batch has this number of columns, and none is hidden by another with its name."""
    return len(batch.columns) == count and getattr(batch.columns, "is_unique", True)


def is_plain_named_tuple(kind: Any, names: list[str]) -> bool:
    """Returns True if a class is a named tuple with these fields, whose constructor only stores them."""
    if type(kind) is not type or kind.__bases__ != (tuple,) or "__init__" in vars(kind):
        return False
    code = getattr(kind.__new__, "__code__", None)
    return (
        code is not None
        and list(getattr(kind, "_fields", ())) == list(names)
        and list(code.co_varnames[1 : code.co_argcount]) == list(names)
        and not code.co_posonlyargcount
    )


def _split_table(table: Any) -> Iterator[_Columns]:
    """Yields the values of an Arrow table in parts, as one list for each column."""
    fitting = PIECE_BYTES * table.num_rows // max(1, table.nbytes)
    for part in table.to_batches(max_chunksize=max(1, min(_MOST_ROWS, fitting))):
        yield [column.to_pylist() for column in part.columns]


def _split_frame(frame: Any) -> Iterator[_Columns]:
    """Yields the values of a data frame in parts, as one list for each column."""
    for start in range(0, len(frame), _MOST_ROWS):
        part = frame.iloc[start : start + _MOST_ROWS]
        yield [_list_series(part[column]) for column in part.columns]


def _list_series(series: Any) -> list[Any]:
    """Returns the values of a pandas series as its iterator does, with None for each missing value."""
    # Lists of extension types contain other types than their iterators.
    values = list(series) if hasattr(series.dtype, "na_value") else series.tolist()
    missing = series.isna()
    if not missing.any():
        return values
    return [
        None if is_missing else value for is_missing, value in zip(missing, values, strict=True)
    ]
