"""`ReadFromIceberg`, which reads a snapshot of an Iceberg table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import attrs
import pyarrow as pa

from beam_spark_io.iceberg.outages import convert_iceberg_outages
from beam_spark_io.iceberg.table import load_table
from beam_spark_io.tables.columns import simplify_columns
from beam_spark_io.tables.outages import (
    PATIENCE,
    TableUnavailable,
    check_patience,
    read_batches,
    wait_for_table,
)
from beam_spark_io.tables.reading import ReadTable, reorder_columns


class ReadFromIceberg(ReadTable):
    """Transform that reads each row of one snapshot of an Iceberg table once.

        ReadFromIceberg("shop.sales", catalog, columns=["id", "price"], where="price > 2")

    Elements are ``beam.Row``, or of the NamedTuple that `schema` names. Files that can't contain
    matching rows, by their partition and statistics, aren't read. The transform needs the extra
    ``iceberg``.

    Args:
        table: name of the table, with its namespace.
        catalog: properties of the catalog, as `pyiceberg.catalog.load_catalog` takes them.
        columns: the selected columns in order.
        where: condition as `pyiceberg` parses it.
        snapshot: the ID of a snapshot; None for the newest when the job runs.
        schema: the columns of the table: a NamedTuple, a ``pyarrow.Schema``, or a ``StructType`` of
            Spark. Without `schema`, this program reads them from the table.
        batches: whether elements are ``pyarrow.RecordBatch`` objects instead of rows.
        patience: seconds for which a step waits for an unavailable catalog or storage.

    Raises:
        ValueError: An argument is invalid, a column is missing, or rows don't support its type.
        NoSuchTableError: This program can't find the table.
    """

    def __init__(
        self,
        table: str,
        catalog: Mapping[str, str],
        *,
        columns: Sequence[str] = (),
        where: str = "",
        snapshot: int | None = None,
        schema: Any = None,
        batches: bool = False,
        patience: float = PATIENCE,
    ) -> None:
        check_patience(patience)
        source = IcebergSource(table, dict(catalog), tuple(columns), where, snapshot)
        super().__init__(
            ListIcebergFiles(source, patience),
            ReadIcebergFile(source, patience),
            source.load_columns,
            columns,
            schema,
            batches=batches,
        )


@attrs.frozen
class IcebergSource:
    """Part of a table that a pipeline reads.

    Attributes:
        name: name of the table.
        catalog: properties of the catalog.
        columns: the selected columns; all if empty.
        where: the condition; empty for all rows.
        snapshot: the ID of the snapshot; None for the newest.
    """

    name: str
    catalog: Mapping[str, str]
    columns: tuple[str, ...]
    where: str
    snapshot: int | None

    @property
    def condition(self) -> str:
        """The condition for `pyiceberg`, which has one for all rows."""
        return self.where or "true"

    def make_scan(self, table: Any, snapshot: int | None) -> Any:
        """Returns a scan of a loaded table."""
        return table.scan(
            row_filter=self.condition,
            selected_fields=self.columns or ("*",),
            snapshot_id=snapshot,
        )

    def select_columns(self, schema: Any) -> Any:
        """Returns the selected columns of a schema of the table.

        Raises:
            ValueError: The schema has no such column.
        """
        return schema.select(*self.columns) if self.columns else schema

    def load_columns(self) -> pa.Schema:
        """Returns the columns of the snapshot."""
        table = load_table(self.name, self.catalog)
        scan = attrs.evolve(self, columns=()).make_scan(table, self.snapshot)
        return simplify_columns(scan.projection().as_arrow())


class ListIcebergFiles(beam.DoFn):
    """DoFn that emits the files of a snapshot that can contain rows that match the condition.

    Args:
        source: the part of the table.
        patience: maximum seconds of the wait for an unavailable catalog or storage.
    """

    def __init__(self, source: IcebergSource, patience: float) -> None:
        self._source = source
        self._patience = patience

    def process(self, _: bytes) -> Iterator[tuple[int | None, Any]]:
        """Yields the snapshot and the scan task of each file."""
        yield from wait_for_table(self._list_tasks, self._patience)

    def _list_tasks(self) -> list[tuple[int | None, Any]]:
        with convert_iceberg_outages(self._source.name, TableUnavailable):
            table = load_table(self._source.name, self._source.catalog)
            current = table.current_snapshot()
            newest = None if current is None else current.snapshot_id
            snapshot = newest if self._source.snapshot is None else self._source.snapshot
            scan = self._source.make_scan(table, snapshot)
            return [(snapshot, task) for task in scan.plan_files()]


class ReadIcebergFile(beam.DoFn):
    """DoFn that reads the rows of a data file, except rows that delete files remove.

    Args:
        source: the part of the table.
        patience: maximum seconds of a wait for an unavailable catalog or storage; None waits without a
            limit.
    """

    def __init__(self, source: IcebergSource, patience: float | None) -> None:
        self._source = source
        self._patience = patience

    def setup(self) -> None:
        """Prepares an instance that has opened no file yet."""
        self._readers: dict[int | None, IcebergFileReader] = {}

    def process(self, element: tuple[int | None, Any]) -> Iterator[pa.RecordBatch]:
        """Yields the rows that match the condition, as batches."""
        yield from read_batches(partial(self._open_file, *element), self._patience)

    def create_reader(self, table: Any, version: int | None) -> IcebergFileReader:
        """Returns a reader of files with the columns of a snapshot."""
        return IcebergFileReader(table, self._source, self._source.make_scan(table, version))

    def _open_file(self, version: int | None, task: Any) -> Iterator[pa.RecordBatch]:
        try:
            with convert_iceberg_outages(self._source.name, TableUnavailable):
                if version not in self._readers:
                    table = load_table(self._source.name, self._source.catalog)
                    self._readers[version] = self.create_reader(table, version)
                yield from self._readers[version].read(task)
        except TableUnavailable:
            # The next attempt loads the table, whose credentials for the storage can have expired.
            self._readers.clear()
            raise


class IcebergFileReader:
    """Reader of data files that have the same columns and condition.

    Args:
        table: the loaded table.
        source: the part of the table.
        scan: scan of the library with the condition.
        columns: the columns of the rows, as a schema of `pyiceberg`; None for those of the scan.
    """

    def __init__(self, table: Any, source: IcebergSource, scan: Any, columns: Any = None) -> None:
        from pyiceberg.io.pyarrow import ArrowScan

        selected = scan.projection() if columns is None else columns
        self._scan = ArrowScan(table.metadata, table.io, selected, scan.row_filter)
        self._target = simplify_columns(selected.as_arrow())
        self._columns = source.columns

    def read(self, task: Any) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file that fulfil the condition.

        Args:
            task: the file with its delete files, as the library plans it.
        """
        batches = (batch.cast(self._target) for batch in self._scan.to_record_batches([task]))
        yield from reorder_columns(batches, self._columns)
