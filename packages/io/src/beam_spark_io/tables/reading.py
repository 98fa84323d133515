"""Base transform of table reads (Delta, Iceberg): lists the table's files once, and then reads them in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.transforms.ptransform import PTransform
from apache_beam.typehints.native_type_compatibility import match_is_named_tuple
from beam_runner_data.rows.columns import encode_batch

from beam_spark_io.declared import list_declared_columns, select_columns
from beam_spark_io.rows import RowsOfBatches
from beam_spark_io.schemas import make_row_type


class ReadTable(PTransform):
    """Transform that reads a table by its files.

    Args:
        list_files: DoFn that emits the files of the table for one element.
        read_file: DoFn that emits the rows of a file as Arrow batches.
        load_columns: function that returns the columns of the table.
        columns: the selected columns in order; all columns if empty.
        schema: the declared columns of the rows; None for those of the table.
        batches: whether elements are Arrow batches.

    Raises:
        ValueError: A selected column is missing, or rows don't support its type.
    """

    def __init__(
        self,
        list_files: beam.DoFn,
        read_file: beam.DoFn,
        load_columns: Callable[[], pa.Schema],
        columns: Sequence[str],
        schema: Any,
        *,
        batches: bool,
    ) -> None:
        super().__init__()
        self._list_files = list_files
        self._read_file = read_file
        self._batches = batches
        self._make: Any = None
        self._type: Any = pa.RecordBatch
        self._names: Sequence[str] = ()
        if not batches:
            self._make = schema if match_is_named_tuple(schema) and not columns else None
            declared = load_columns() if schema is None else list_declared_columns(schema)
            selected = select_columns(declared, columns)
            self._names = selected.names
            self._type = self._make or make_row_type(selected)

    def expand(self, pbegin: pvalue.PBegin) -> pvalue.PCollection:
        """Returns a PCollection with one element for each row, or for each batch."""
        begin = pbegin | "Begin" >> beam.Impulse()
        batches = (
            self.list_files(begin)
            | "Distribute" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(self._read_file).with_output_types(pa.RecordBatch)
        )
        if self._batches:
            return batches
        # Convert batches to rows in the stage that reads the file, so that batches needn't be encoded.
        encode = partial(encode_columns, self._names)
        return (
            batches
            | "Encode" >> beam.Map(encode).with_output_types(bytes)
            | "Rows" >> beam.ParDo(RowsOfBatches(self._make)).with_output_types(self._type)
        )

    def list_files(self, begin: pvalue.PCollection) -> pvalue.PCollection:
        """Returns the files of the table for one element."""
        return begin | "Files" >> beam.ParDo(self._list_files)


def encode_columns(names: Sequence[str], batch: pa.RecordBatch) -> bytes:
    """Returns the encoded columns of rows. The table can have got further columns since the job started.

    Raises:
        ValueError: The table doesn't have a column anymore.
    """
    for name in names:
        if name not in batch.schema.names:
            raise ValueError(
                f"the table has no column {name!r}, which the rows have: restore the column, or start"
                " a new job"
            )
    return encode_batch(batch.select(list(names)))


def reorder_columns(
    batches: Iterator[pa.RecordBatch], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yields batches that have rows, with the selected columns in order."""
    for batch in batches:
        if batch.num_rows:
            yield batch.select(list(columns)) if columns else batch
