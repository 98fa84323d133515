"""Writer of table files: collects the rows of a bundle, and writes them to data files of a limited size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import GlobalWindows

from beam_spark_io.rows import RowBuffer

FILE_BYTES = 128 << 20
"""Approximate size of rows in memory that fill a file."""


class TableWriter:
    """Writer of one bundle.

    Args:
        stage: function that writes rows to files, and returns what the committer needs to add them.
        file_bytes: size of rows in memory that fill a file.
    """

    def __init__(
        self,
        columns: pa.Schema,
        stage: Callable[[pa.Table], Iterable[Any]],
        file_bytes: int = FILE_BYTES,
    ) -> None:
        self._columns = columns
        self._stage = stage
        self._file_bytes = file_bytes
        self._rows = RowBuffer(columns)
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._staged: list[Any] = []

    def write(self, element: Any) -> None:
        """Adds a row. If the collected rows fill a file, writes the file first. The element None
        only causes a commit, even without rows.

        Raises:
            SinkUnavailable: The storage doesn't answer; the row isn't added.
            ValueError: A field is missing, or a value doesn't fit its column.
        """
        if element is None:
            self._staged.append(None)
            return
        if self._bytes >= self._file_bytes:
            self._stage_rows()
        if self._rows.add(element):
            self._take_batch()

    def close(self) -> Sequence[Any]:
        """Writes the remaining rows to files, and returns the descriptions of all files.

        Raises:
            SinkUnavailable: The storage doesn't answer; the call can be repeated.
            ValueError: A value doesn't fit its column.
        """
        if self._rows:
            self._take_batch()
        if self._batches:
            self._stage_rows()
        return self._staged

    def _take_batch(self) -> None:
        self._batches.append(self._rows.take_batch())
        self._bytes += self._batches[-1].nbytes

    def _stage_rows(self) -> None:
        # Collect the files in a list first, so that a failure adds no file.
        self._staged += list(self._stage(pa.Table.from_batches(self._batches, self._columns)))
        self._batches, self._bytes = [], 0


def add_overwrite_marker(rows: PCollection[Any]) -> PCollection[Any]:
    """Adds the element None to the rows, so that an overwrite without rows makes a commit, too."""
    begin = rows.pipeline | "Impulse" >> beam.Impulse() | "Begin" >> beam.Map(lambda _: None)
    rows = rows | "Rows in one window" >> beam.WindowInto(GlobalWindows())
    both: PCollection[Any] = (rows, begin) | "Rows and begin" >> beam.Flatten()
    return both


def convert_rows(columns: pa.Schema, elements: Iterable[Any]) -> pa.Table:
    """Returns elements as one table.

    Raises:
        ValueError: A field is missing, or a value doesn't fit its column.
    """
    rows = RowBuffer(columns)
    batches = []
    for element in elements:
        if rows.add(element):
            batches.append(rows.take_batch())
    if rows:
        batches.append(rows.take_batch())
    return pa.Table.from_batches(batches, columns)
