"""`ReadStreamFromDelta`, which reads the rows that each new version of a Delta table adds.

The position of the stream is a version number. The table's log lists the files that each version
added.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from beam_spark_io.delta.outages import convert_delta_outages
from beam_spark_io.delta.reading import (
    DeltaFileTask,
    DeltaSource,
    ReadDeltaFile,
    make_partition_expression,
    make_source,
)
from beam_spark_io.endless_restrictions import EndlessRestrictions
from beam_spark_io.tables.columns import simplify_columns
from beam_spark_io.tables.outages import TableUnavailable, wait_for_table
from beam_spark_io.tables.reading import ReadTable
from beam_spark_io.tables.streaming import (
    MOST_VERSIONS,
    TableVersion,
    check_poll_seconds,
    emit_version_tasks,
)

_UNREADABLE = frozenset({"columnMapping", "deletionVectors"})


class ReadStreamFromDelta(ReadTable):
    """Transform that reads each row that a new version of a Delta table adds, once and without end.

        ReadStreamFromDelta("/lake/sales", first_version=12, schema=Sale)

    Elements are as in `ReadFromDelta`. Their timestamp is the time of the version. A version that also
    removes rows ends the job, unless `ignore_removals` is set. A drain of the job ends the reading. The
    transform needs the extra ``delta``.

    Args:
        table: folder of the table, or its URL.
        first_version: the first version whose rows are read; None for the next version after the start.
        ignore_removals: whether the stream reads the added rows of versions that remove rows, too.
        columns: the selected columns in order.
        filters: conditions on rows, as in `ReadFromDelta`.
        schema: the columns of the table, as in `ReadFromDelta`.
        batches: whether elements are ``pyarrow.RecordBatch`` objects instead of rows.
        poll_seconds: pause between two checks for a new version.
        storage_options: options of the object store, as `deltalake` names them.

    Raises:
        ValueError: An argument is invalid, a column is missing, or rows don't support its type.
        DeltaError: This program can't read the table.
    """

    def __init__(
        self,
        table: str,
        *,
        first_version: int | None = None,
        ignore_removals: bool = False,
        columns: Sequence[str] = (),
        filters: Any = None,
        schema: Any = None,
        batches: bool = False,
        poll_seconds: float = 5.0,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        check_poll_seconds(poll_seconds)
        source = make_source(table, columns, filters, None, storage_options)
        self._source = source
        self._first = first_version
        super().__init__(
            ReadDeltaVersions(source, poll_seconds, ignore_removals=ignore_removals),
            ReadDeltaFile(source, None),
            lambda: simplify_columns(pa.schema(source.open_table().schema().to_arrow())),
            columns,
            schema,
            batches=batches,
        )

    def list_files(self, begin: pvalue.PCollection) -> pvalue.PCollection:
        """Returns the files that versions add, from the first version on, as an unbounded PCollection."""
        source, first = self._source, self._first
        # Determine the first version in a bundle, whose result is committed, so that retries and
        # later servers start with the same version.
        versions = begin | "First version" >> beam.Map(
            lambda _: find_next_version(source) if first is None else first
        )
        return super().list_files(versions)


def find_next_version(source: DeltaSource) -> int:
    """Returns the number of the table's next version. Waits during an outage without a limit."""

    def read_next_version() -> int:
        with convert_delta_outages(source.url, TableUnavailable):
            return int(source.open_table().version()) + 1

    return wait_for_table(read_next_version, None)


_WATERMARK: Any = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class ReadDeltaVersions(beam.DoFn):
    """DoFn that emits the files that each version adds.

    Args:
        poll_seconds: pause between two checks for a new version.
        ignore_removals: whether versions may remove rows.
    """

    def __init__(self, source: DeltaSource, poll_seconds: float, *, ignore_removals: bool) -> None:
        self._source = source
        self._poll = poll_seconds
        self._ignores_removals = ignore_removals

    def setup(self) -> None:
        """Initializes the DoFn without an open table."""
        self._table: Any = None

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(EndlessRestrictions()),  # noqa: B008
        estimator: Any = _WATERMARK,
    ) -> Iterator[TimestampedValue]:
        """Returns the files of the versions that exist.

        Raises:
            ValueError: A version removes rows, or its entry of the log is missing.
        """
        versions = self._list_versions(tracker.current_restriction().start)
        return emit_version_tasks(versions, tracker, estimator, self._poll)

    def _list_versions(self, start: int) -> Iterator[TableVersion]:
        with convert_delta_outages(self._source.url, TableUnavailable):
            table = self._update_table()
        _check_features(self._source.url, table)
        schema = pa.schema(table.schema().to_arrow())
        end = min(table.version(), start + MOST_VERSIONS - 1)
        for version in range(start, end + 1):
            with convert_delta_outages(self._source.url, TableUnavailable):
                actions = read_actions(self._source, version)
            tasks = list(self._list_added_files(version, actions, schema))
            yield TableVersion(version, find_commit_time(actions), tasks)

    def _update_table(self) -> Any:
        """Returns the newest version of the table. If the table is already open, reads only new log entries."""
        if self._table is None:
            self._table = self._source.open_table()
        else:
            self._table.update_incremental()
        return self._table

    def _list_added_files(
        self, version: int, actions: Sequence[Mapping[str, Any]], schema: pa.Schema
    ) -> Iterator[DeltaFileTask]:
        for action in actions:
            removed, added = action.get("remove"), action.get("add")
            if removed and removed.get("dataChange", True) and not self._ignores_removals:
                raise ValueError(
                    f"version {version} of {self._source.url} removes rows, and the stream only "
                    "reads"
                    " added rows: set ignore_removals=True, or start after this version"
                )
            if added and added.get("dataChange", True):
                values = {
                    name: None
                    if not text
                    else pa.scalar(text).cast(schema.field(name).type).as_py()
                    for name, text in added["partitionValues"].items()
                }
                partition = make_partition_expression(values)
                yield DeltaFileTask(unquote(added["path"]), partition, schema)


def read_actions(source: DeltaSource, version: int) -> list[Mapping[str, Any]]:
    """Returns the actions of a version.

    Raises:
        ValueError: The table's cleanup has removed the entry of the log.
    """
    try:
        with source.open_files().open_input_file(f"_delta_log/{version:020}.json") as file:
            return [json.loads(line) for line in file.read().splitlines() if line]
    except FileNotFoundError as error:
        raise ValueError(
            f"{source.url} has no entry for version {version} in its log: the table's cleanup has"
            " removed it. Start with a later version"
        ) from error


def find_commit_time(actions: Sequence[Mapping[str, Any]]) -> Timestamp | None:
    """Returns the commit time of a version; None if the writer of the version hasn't recorded a
    time.
    """
    for action in actions:
        if "timestamp" in action.get("commitInfo", {}):
            return Timestamp(micros=action["commitInfo"]["timestamp"] * 1000)
    return None


def _check_features(url: str, table: Any) -> None:
    features = _UNREADABLE.intersection(table.protocol().reader_features or ())
    if features:
        raise ValueError(f"{url} has the feature {min(features)}, which the stream doesn't support")
