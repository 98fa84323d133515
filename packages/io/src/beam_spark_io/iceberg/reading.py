"""`ReadFromIceberg`, which reads a snapshot of an Iceberg table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import attrs
import pyarrow as pa

from beam_spark_io.iceberg.table import load_table
from beam_spark_io.tables.columns import simplify_columns
from beam_spark_io.tables.reading import ReadTable, order_columns


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

    Raises:
        ValueError: A column is missing, or rows don't support its type.
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
    ) -> None:
        source = IcebergSource(table, dict(catalog), tuple(columns), where, snapshot)
        super().__init__(
            ListIcebergFiles(source),
            ReadIcebergFile(source),
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
    """

    def __init__(self, source: IcebergSource) -> None:
        self._source = source

    def process(self, _: bytes) -> Iterator[tuple[int | None, Any]]:
        """Yields the snapshot and the scan task of each file."""
        table = load_table(self._source.name, self._source.catalog)
        current = table.current_snapshot()
        newest = None if current is None else current.snapshot_id
        snapshot = newest if self._source.snapshot is None else self._source.snapshot
        for task in self._source.make_scan(table, snapshot).plan_files():
            yield snapshot, task


class ReadIcebergFile(beam.DoFn):
    """DoFn that reads the rows of a data file, except rows that delete files remove.

    Args:
        source: the part of the table.
    """

    def __init__(self, source: IcebergSource) -> None:
        self._source = source

    def setup(self) -> None:
        """Starts without a loaded table."""
        self._table: Any = None

    def process(self, element: tuple[int | None, Any]) -> Iterator[pa.RecordBatch]:
        """Yields the rows that match the condition, as batches."""
        snapshot, task = element
        if self._table is None or self._table.metadata.snapshot_by_id(snapshot) is None:
            self._table = load_table(self._source.name, self._source.catalog)
        columns = self._source.make_scan(self._table, snapshot).projection()
        yield from read_task(self._table, self._source, columns, task)


def read_task(
    table: Any, source: IcebergSource, columns: Any, task: Any
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a file that fulfil the condition.

    Args:
        table: the loaded table.
        source: the part of the table.
        columns: the columns of the rows, as a schema of `pyiceberg`.
        task: the file with its delete files, as the library plans it.
    """
    from pyiceberg.expressions import parser
    from pyiceberg.io.pyarrow import ArrowScan

    arrow = ArrowScan(table.metadata, table.io, columns, parser.parse(source.condition))
    target = simplify_columns(columns.as_arrow())
    batches = (batch.cast(target) for batch in arrow.to_record_batches([task]))
    yield from order_columns(batches, source.columns)
