"""`ReadStreamFromIceberg`, which reads the rows that each new snapshot of an Iceberg table adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from beam_spark_io.endless_restrictions import EndlessRestrictions
from beam_spark_io.iceberg.lineage import LineageReader
from beam_spark_io.iceberg.outages import convert_iceberg_outages
from beam_spark_io.iceberg.reading import IcebergFileReader, IcebergSource, ReadIcebergFile
from beam_spark_io.iceberg.table import TableLoader, load_table
from beam_spark_io.tables.outages import TableUnavailable, wait_for_table
from beam_spark_io.tables.reading import ReadTable
from beam_spark_io.tables.streaming import (
    MOST_VERSIONS,
    TableVersion,
    check_poll_seconds,
    emit_version_tasks,
)


class ReadStreamFromIceberg(ReadTable):
    """Transform that reads each row that a new snapshot of an Iceberg table adds, once and without end.

        ReadStreamFromIceberg("shop.sales", catalog, schema=Sale)

    Elements are as in `ReadFromIceberg`. Their timestamp is the time of the snapshot. A snapshot that also
    removes rows ends the job, unless `ignore_removals` is set. A drain of the job ends the reading. The
    transform needs the extra ``iceberg``, and a table with the format version 2 or later.

    Args:
        table: name of the table, with its namespace.
        catalog: properties of the catalog, as `pyiceberg.catalog.load_catalog` takes them.
        after_snapshot: the ID of the snapshot after which the stream starts; None for the newest when
            the job starts.
        ignore_removals: whether the stream reads the added rows of snapshots that remove rows, too, and
            continues after a rollback.
        columns: the selected columns in order.
        where: condition as `pyiceberg` parses it.
        schema: the columns of the table, as in `ReadFromIceberg`.
        batches: whether elements are ``pyarrow.RecordBatch`` objects instead of rows.
        poll_seconds: pause before the next look for a new snapshot.

    Raises:
        ValueError: An argument is invalid, a column is missing, or rows don't support its type.
        NoSuchTableError: This program can't find the table.
    """

    def __init__(
        self,
        table: str,
        catalog: Mapping[str, str],
        *,
        after_snapshot: int | None = None,
        ignore_removals: bool = False,
        columns: Sequence[str] = (),
        where: str = "",
        schema: Any = None,
        batches: bool = False,
        poll_seconds: float = 5.0,
    ) -> None:
        check_poll_seconds(poll_seconds)
        source = IcebergSource(table, dict(catalog), tuple(columns), where, None)
        self._source = source
        self._after = after_snapshot
        self._lineage = LineageReader(table, ignore_removals)
        super().__init__(
            ReadIcebergSnapshots(source, self._lineage, poll_seconds),
            ReadAddedIcebergFile(source, None),
            source.load_columns,
            columns,
            schema,
            batches=batches,
        )

    def list_files(self, begin: pvalue.PCollection) -> pvalue.PCollection:
        """Returns the files of all snapshots after the first position, without end."""
        source, after, lineage = self._source, self._after, self._lineage
        # A bundle finds the position, so all attempts and later servers begin with the same one.
        positions = begin | "First position" >> beam.Map(
            lambda _: find_first_position(source, lineage, after)
        )
        return super().list_files(positions)


_WATERMARK: Any = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class ReadIcebergSnapshots(beam.DoFn):
    """DoFn that emits the files that each snapshot adds, with the number of the table's schema.

    Args:
        source: the part of the table.
        lineage: reader of the snapshots that the stream hasn't read.
        poll_seconds: pause before the next look for a new snapshot.
    """

    def __init__(self, source: IcebergSource, lineage: LineageReader, poll_seconds: float) -> None:
        self._source = source
        self._lineage = lineage
        self._poll = poll_seconds

    def setup(self) -> None:
        """Creates the table loader, which connects to the catalog when it first loads the table."""
        self._loader = TableLoader(self._source.name, self._source.catalog)

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(EndlessRestrictions()),  # noqa: B008
        estimator: Any = _WATERMARK,
    ) -> Iterator[TimestampedValue]:
        """Returns the files of the snapshots that exist.

        Raises:
            ValueError: A snapshot removes rows, or was expired or rolled back.
        """
        versions = self._list_versions(tracker.current_restriction().start)
        return emit_version_tasks(versions, tracker, estimator, self._poll)

    def _list_versions(self, start: int) -> Iterator[TableVersion]:
        with convert_iceberg_outages(self._source.name, TableUnavailable):
            table = self._loader.load()
        schema = table.metadata.current_schema_id
        for snapshot in self._lineage.list_new_snapshots(table, start)[:MOST_VERSIONS]:
            with convert_iceberg_outages(self._source.name, TableUnavailable):
                tasks = self._list_added_files(table, snapshot)
            time = Timestamp(micros=snapshot.timestamp_ms * 1000)
            added = [(schema, task) for task in tasks]
            yield TableVersion(int(snapshot.sequence_number), time, added)

    def _list_added_files(self, table: Any, snapshot: Any) -> Sequence[Any]:
        from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
        from pyiceberg.table import ManifestGroupPlanner
        from pyiceberg.table.snapshots import Operation

        number = snapshot.snapshot_id
        if snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE:
            return ()
        own = [one for one in snapshot.manifests(table.io) if one.added_snapshot_id == number]
        removes = any(
            one.content is ManifestContent.DELETES or one.deleted_files_count != 0 for one in own
        )
        if removes and not self._lineage.ignores_removals:
            raise ValueError(
                f"snapshot {number} of the table {self._source.name} removes rows, and the stream only"
                " reads added rows: set ignore_removals=True, or start after this snapshot"
            )
        data = [one for one in own if one.content is ManifestContent.DATA and one.has_added_files()]
        planner = ManifestGroupPlanner(table.metadata, table.io, self._source.condition)
        return list(
            planner.plan_files(
                data,
                lambda entry: (
                    entry.snapshot_id == number and entry.status is ManifestEntryStatus.ADDED
                ),
            )
            if data
            else ()
        )


class ReadAddedIcebergFile(ReadIcebergFile):
    """DoFn that reads the rows that a snapshot has added as a file, also if later snapshots remove some.
    Its elements are pairs of the number of the table's schema and a file.
    """

    def create_reader(self, table: Any, version: int | None) -> IcebergFileReader:
        """Returns a reader of files with the columns of a schema of the table."""
        source = self._source
        columns = source.select_columns(table.schemas()[version])
        return IcebergFileReader(table, source, source.make_scan(table, None), columns)


def find_first_position(source: IcebergSource, lineage: LineageReader, after: int | None) -> int:
    """Returns the position after a snapshot, see `LineageReader`. Waits during an outage without a limit."""

    def load_position() -> Any:
        with convert_iceberg_outages(source.name, TableUnavailable):
            return load_table(source.name, source.catalog)

    return lineage.find_snapshot_position(wait_for_table(load_position, None), after)
