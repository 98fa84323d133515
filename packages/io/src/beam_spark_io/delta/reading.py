"""`ReadFromDelta`, which reads a version of a Delta table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.dataset import (
    Expression,
    FileSystemDataset,
    ParquetFileFormat,
    get_partition_keys,
)

from beam_spark_io.delta.outages import convert_delta_outages
from beam_spark_io.delta.storage import load_table, locate_table, open_storage
from beam_spark_io.tables.columns import simplify_columns
from beam_spark_io.tables.outages import (
    PATIENCE,
    TableUnavailable,
    check_patience,
    read_batches,
    wait_for_table,
)
from beam_spark_io.tables.reading import ReadTable, reorder_columns


class ReadFromDelta(ReadTable):
    """Transform that reads each row of one version of a Delta table once.

        ReadFromDelta("/lake/sales", columns=["id", "price"], filters=[("day", ">=", day)])

    Elements are ``beam.Row``, or of the NamedTuple that `schema` names. Files that can't contain
    matching rows, by their partition and statistics, aren't read. The transform needs the extra
    ``delta``.

    Args:
        table: folder of the table, or its URL.
        columns: the selected columns in order.
        filters: conditions as pyarrow has them: a list of tuples such as ``("id", ">", 5)``, or an
            expression of ``pyarrow.compute``, which rules out files by partitions only.
        version: the version of the table; None for the newest when the job runs.
        schema: the columns of the table: a NamedTuple, a ``pyarrow.Schema``, or a ``StructType`` of
            Spark. Without `schema`, this program reads them from the table.
        batches: whether elements are ``pyarrow.RecordBatch`` objects instead of rows.
        storage_options: options of the object store, as `deltalake` names them.
        patience: seconds for which a step waits for unavailable storage.

    Raises:
        ValueError: An argument is invalid, a column is missing, or rows don't support its type.
        DeltaError: This program can't read the table.
    """

    def __init__(
        self,
        table: str,
        *,
        columns: Sequence[str] = (),
        filters: Any = None,
        version: int | None = None,
        schema: Any = None,
        batches: bool = False,
        storage_options: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        check_patience(patience)
        source = make_source(table, columns, filters, version, storage_options)
        super().__init__(
            ListDeltaFiles(source, patience),
            ReadDeltaFile(source, patience),
            lambda: simplify_columns(source.open_dataset().schema),
            columns,
            schema,
            batches=batches,
        )


@attrs.frozen
class DeltaSource:
    """Part of a table that a pipeline reads.

    Attributes:
        url: address of the table.
        columns: the selected columns; all if empty.
        condition: the filter of rows; None for all rows.
        pruning: the same filter as tuples, for the library's choice of files; None for all files.
        version: the version; None for the newest.
        storage_options: options of the table's storage.
    """

    url: str
    columns: tuple[str, ...]
    condition: Expression | None
    pruning: Any
    version: int | None
    storage_options: Mapping[str, str]

    def open_table(self) -> Any:
        """Returns the version of the table."""
        return load_table(self.url, self.storage_options, self.version)

    def open_dataset(self) -> Any:
        """Returns the files of the table as a dataset.

        Raises:
            DeltaProtocolError: Plain Parquet readers don't understand the table, for example because
                of deletion vectors.
        """
        return self.open_table().to_pyarrow_dataset(file_pruning_predicate=self.pruning)

    def open_files(self) -> Any:
        """Returns pyarrow's file system of the table's folder."""
        return open_storage(self.url, self.storage_options)


@attrs.frozen
class DeltaFileTask:
    """File of a version that a bundle reads.

    Attributes:
        path: the name relative to the table.
        partition: the values of the partition columns, as an expression.
        schema: the columns of the table.
    """

    path: str
    partition: Expression
    schema: pa.Schema


def make_source(
    table: str,
    columns: Sequence[str],
    filters: Any,
    version: int | None,
    storage_options: Mapping[str, str] | None,
) -> DeltaSource:
    """Returns the part of a table that the arguments of a transform name."""
    is_expression = isinstance(filters, Expression)
    return DeltaSource(
        url=locate_table(table),
        columns=tuple(columns),
        condition=filters if is_expression or not filters else pq.filters_to_expression(filters),
        pruning=None if is_expression else filters,
        version=version,
        storage_options=dict(storage_options or {}),
    )


class ListDeltaFiles(beam.DoFn):
    """DoFn that emits the files that can contain rows that match the condition.

    Args:
        patience: maximum seconds of the wait for unavailable storage.
    """

    def __init__(self, source: DeltaSource, patience: float) -> None:
        self._source = source
        self._patience = patience

    def process(self, _: bytes) -> Iterator[DeltaFileTask]:
        """Yields the tasks of a version."""
        yield from wait_for_table(self._list_tasks, self._patience)

    def _list_tasks(self) -> list[DeltaFileTask]:
        with convert_delta_outages(self._source.url, TableUnavailable):
            return list(self._find_tasks(self._source.open_dataset()))

    def _find_tasks(self, dataset: Any) -> Iterator[DeltaFileTask]:
        # Don't use the library's expressions, which also contain bounds of columns: if a bound is
        # missing, pyarrow concludes that no row of the file matches.
        fragments = [
            dataset.format.make_fragment(
                fragment.path,
                dataset.filesystem,
                make_partition_expression(get_partition_keys(fragment.partition_expression)),
            )
            for fragment in dataset.get_fragments()
        ]
        files = FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)
        for fragment in files.get_fragments(filter=self._source.condition):
            yield DeltaFileTask(fragment.path, fragment.partition_expression, dataset.schema)


def make_partition_expression(values: Mapping[str, Any]) -> Expression:
    """Returns an expression that is true for all rows of a partition."""
    expression = pc.scalar(True)
    for name, value in values.items():
        field = pc.field(name)
        expression &= field.is_null() if value is None else field == value
    return expression


class ReadDeltaFile(beam.DoFn):
    """DoFn that reads the rows of a file.

    Args:
        patience: maximum seconds of a wait for unavailable storage; None waits without a limit.
    """

    def __init__(self, source: DeltaSource, patience: float | None) -> None:
        self._source = source
        self._patience = patience

    def setup(self) -> None:
        """Opens the storage of the table."""
        self._files = self._source.open_files()

    def process(self, element: DeltaFileTask) -> Iterator[pa.RecordBatch]:
        """Yields the rows that match the condition, as batches."""
        yield from read_batches(partial(self._open_file, element), self._patience)

    def _open_file(self, task: DeltaFileTask) -> Iterator[pa.RecordBatch]:
        schema, source = task.schema, self._source
        columns = list(source.columns) or schema.names
        with convert_delta_outages(source.url, TableUnavailable):
            fragment = ParquetFileFormat().make_fragment(task.path, self._files, task.partition)
            batches = fragment.to_batches(schema=schema, columns=columns, filter=source.condition)
            yield from reorder_columns(batches, columns)
