"""DoFns that convert Arrow batches to rows, and rows to Arrow batches."""

from __future__ import annotations

import datetime
import functools
import keyword
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow, TimestampedValue, WindowedValue
from apache_beam.utils.timestamp import Timestamp
from beam_runner_data.rows.columns import decode_batch, encode_batch

from beam_spark_io.batches import fit_batches

Convert = Callable[[Any], Any]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_TABLES = (pa.RecordBatch, pa.Table)
_FIRST_ROWS = 100
_MOST_ROWS = 20_000
_BATCH_BYTES = 1 << 20
"""The approximate size of a batch in bytes. The size of rows is estimated from the previous batch."""


class RowsOfBatches(beam.DoFn):
    """A DoFn that converts batches to rows.

    Args:
        make: a function that makes a row, such as a NamedTuple class. Each value of the row is one
            argument. With None, the rows are ``beam.Row``.
    """

    def __init__(self, make: Callable[..., Any] | None = None) -> None:
        self._make = make

    def process(self, element: bytes) -> Iterator[Any]:
        """Yields the rows of a batch in order."""
        batch = decode_batch(element)
        columns = [_list_column_values(column) for column in batch.columns]
        return map(self._make or make_row_function(tuple(batch.schema.names)), *columns)


class RowsAtTimes(beam.DoFn):
    """A DoFn that converts batches to rows, each with a timestamp from one of its columns.

    Args:
        column: the name of the timestamp column, which has no nulls.
        make: see `RowsOfBatches`.
    """

    def __init__(self, column: str, make: Callable[..., Any] | None = None) -> None:
        self._column = column
        self._rows = RowsOfBatches(make)

    def process(self, element: bytes) -> Iterator[TimestampedValue]:
        """Yields the rows of a batch in order."""
        times = _list_column_values(decode_batch(element).column(self._column))
        return map(TimestampedValue, self._rows.process(element), times)


@functools.cache
def make_row_function(names: tuple[str, ...]) -> Callable[..., beam.Row]:
    """Returns a function that makes a ``beam.Row`` from the values of these fields, one argument for
    each.

    If all names are valid ASCII identifiers, the function is compiled for these names, which takes
    less than half of the time. Other letters aren't supported, because Python normalizes them.
    """
    if not all(map(_is_safe_parameter_name, names)):
        return lambda *values: beam.Row(**dict(zip(names, values, strict=True)))
    arguments = [f"value_{number}" for number in range(len(names))]
    sets = [f" row.{name} = {value}" for name, value in zip(names, arguments, strict=True)]
    lines = (f"def make({', '.join(arguments)}):", " row = new(Row)", *sets, " return row")
    known: dict[str, Any] = {"new": object.__new__, "Row": beam.Row}
    exec("\n".join(lines), known)
    made: Callable[..., beam.Row] = known["make"]
    return made


def _is_safe_parameter_name(name: str) -> bool:
    return (
        name.isascii()
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and not name.startswith("__")
    )


class RowBuffer:
    """Buffer of rows, which are converted to an Arrow batch together. Rows are NamedTuples,
    ``beam.Row`` or dicts.

    Args:
        schema: the columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: list[tuple[Any, ...]] = []
        self._enough = _FIRST_ROWS
        self._pickers: dict[type, Callable[[Any], tuple[Any, ...]]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        """Drops all rows."""
        self._rows = []

    def add(self, element: Any) -> bool:
        """Adds a row. Returns whether the buffer has enough rows for a batch.

        Raises:
            ValueError: a field is missing.
        """
        # Store the values and not the row objects, because Python's garbage collector would scan
        # the accumulated objects.
        kind = type(element)
        pick = self._pickers.get(kind)
        if pick is None:
            pick = self._pickers[kind] = _make_value_getter(kind, self._schema.names)
        try:
            self._rows.append(pick(element))
        except (AttributeError, KeyError) as error:
            missing = error.name if isinstance(error, AttributeError) else error.args[0]
            raise ValueError(
                f"a row has no field {missing!r}, which is a column of the table"
            ) from None
        return len(self._rows) >= self._enough

    def take_batch(self) -> pa.RecordBatch:
        """Removes the collected rows, and returns them as a batch.

        Raises:
            ValueError: a value doesn't fit its column.
        """
        rows, self._rows = self._rows, []
        values = zip(*rows, strict=True)
        columns = [
            _make_arrow_column(field, each)
            for field, each in zip(self._schema, values, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        fitting = len(rows) * _BATCH_BYTES // max(1, batch.nbytes)
        self._enough = max(1, min(fitting, 2 * self._enough, _MOST_ROWS))
        return batch


class BatchesOfRows(beam.DoFn):
    """A DoFn that converts rows to batches, as `RowBuffer` does. Elements that are batches or tables
    of Arrow pass without the buffer.

    Args:
        schema: the columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def setup(self) -> None:
        """Creates the buffer before the first bundle."""
        self._buffer = RowBuffer(self._schema)

    def start_bundle(self) -> None:
        """Starts with an empty batch, also after a bundle that failed."""
        self._buffer.clear()

    def process(self, element: Any) -> list[bytes] | None:
        """Adds a row. When the batch is large enough, yields the batch.

        Raises:
            ValueError: a field is missing, or a value doesn't fit its column.
        """
        if type(element) in _TABLES:
            return [encode_batch(batch) for batch in fit_batches(element, self._schema)]
        is_full = self._buffer.add(element)
        return [encode_batch(self._buffer.take_batch())] if is_full else None

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yields the last batch."""
        if self._buffer:
            window = GlobalWindow()
            batch = encode_batch(self._buffer.take_batch())
            yield WindowedValue(batch, window.max_timestamp(), [window])


def _make_value_getter(kind: type, names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Returns a function that returns the values of a row. Uses Python's `operator` getters if
    possible.

    The getters fit if they return a tuple, and if no name contains a dot.
    """
    if issubclass(kind, tuple) and getattr(kind, "_fields", ()) == tuple(names):
        return tuple
    is_dict = issubclass(kind, dict)
    if len(names) < 2 or any("." in name for name in names):
        one: Callable[[Any, str], Any] = operator.getitem if is_dict else getattr
        return lambda row: tuple(one(row, name) for name in names)
    return operator.itemgetter(*names) if is_dict else operator.attrgetter(*names)


def _list_column_values(column: pa.Array) -> list[Any]:
    """Returns the values of a column in the form that rows have."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
        return [None if each is None else Timestamp(micros=each) for each in micros]
    values: list[Any] = column.to_pylist()
    convert = _make_arrow_to_python_converter(column.type)
    return values if convert is None else [None if v is None else convert(v) for v in values]


def _make_arrow_to_python_converter(arrow: pa.DataType) -> Convert | None:
    """Returns a function that converts an Arrow value to the value in a row; None if no conversion
    is needed.
    """
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        return _to_beam_timestamp
    if pa.types.is_struct(arrow):
        parts = [
            (field.name, _allow_none(_make_arrow_to_python_converter(field.type)))
            for field in arrow
        ]
        return lambda value: beam.Row(**{name: convert(value[name]) for name, convert in parts})
    if pa.types.is_map(arrow):
        key, item = (
            _allow_none(_make_arrow_to_python_converter(arrow.key_type)),
            _allow_none(_make_arrow_to_python_converter(arrow.item_type)),
        )
        return lambda value: {key(k): item(v) for k, v in value}
    if pa.types.is_list(arrow):
        element = _make_arrow_to_python_converter(arrow.value_type)
        if element is not None:
            each = _allow_none(element)
            return lambda value: [each(v) for v in value]
    return None


def _make_arrow_column(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """Returns an Arrow column with the given values.

    Raises:
        ValueError: a value doesn't fit the column.
    """
    name = field.name
    try:
        convert = _make_python_to_arrow_converter(field.type)
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        column = pa.array(values, field.type)
    except (pa.ArrowException, TypeError, OverflowError, AttributeError, KeyError) as error:
        raise ValueError(
            f"the column {name!r} has the type {field.type}, but a row has another value: {error}"
        ) from error
    if column.null_count and not field.nullable:
        raise ValueError(
            f"the column {name!r} must not contain nulls, but a row has None: declare"
            " the column as Optional"
        )
    return column


def _make_python_to_arrow_converter(arrow: pa.DataType) -> Convert | None:
    """Returns a function that converts a value of a row to a value that Arrow accepts; None if no
    conversion is needed.
    """
    if pa.types.is_timestamp(arrow):
        return _to_microseconds
    if pa.types.is_struct(arrow):
        parts = [
            (field.name, _allow_none(_make_python_to_arrow_converter(field.type)))
            for field in arrow
        ]
        return lambda value: {
            name: convert(value[name] if isinstance(value, dict) else getattr(value, name))
            for name, convert in parts
        }
    if pa.types.is_map(arrow):
        key, item = (
            _allow_none(_make_python_to_arrow_converter(arrow.key_type)),
            _allow_none(_make_python_to_arrow_converter(arrow.item_type)),
        )
        return lambda value: [(key(k), item(v)) for k, v in value.items()]
    if pa.types.is_list(arrow):
        each = _allow_none(_make_python_to_arrow_converter(arrow.value_type))
        return lambda value: [each(v) for v in value]
    return None


def _to_beam_timestamp(value: datetime.datetime) -> Timestamp:
    return Timestamp(micros=(value - _EPOCH) // _MICROSECOND)


def _to_microseconds(value: Any) -> Any:
    return value.micros if isinstance(value, Timestamp) else value


def _allow_none(convert: Convert | None) -> Convert:
    if convert is None:
        return _return_unchanged
    return lambda value: None if value is None else convert(value)


def _return_unchanged(value: Any) -> Any:
    return value
