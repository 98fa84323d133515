"""`WriteToIceberg`, which writes each row once into an Iceberg table.

Writers store data files, which readers don't see before a commit. One commit adds the files of all
bundles to the table, as one snapshot. The summary of the snapshot contains the run, the number of
the commit and its digest. Before each attempt, the committer searches the snapshots for this
commit. The catalog refuses a change that is based on an outdated version of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from beam_spark_io.exactly_once.protocols import CommitId, SinkUnavailable, is_committed
from beam_spark_io.iceberg.changes import begin_table_change
from beam_spark_io.iceberg.outages import convert_iceberg_outages
from beam_spark_io.iceberg.replacing import (
    check_partitions,
    list_data_files,
    list_replaced_files,
)
from beam_spark_io.iceberg.table import (
    IcebergFile,
    IcebergTarget,
    TableLoader,
    add_columns,
    check_files,
    make_summary,
    read_columns,
    read_mark,
    stage_files,
)
from beam_spark_io.tables.columns import choose_columns, keep_last_row_per_key
from beam_spark_io.tables.modes import APPEND, OVERWRITE, OVERWRITE_PARTITIONS, UPSERT
from beam_spark_io.tables.writer import TableWriter, convert_rows
from beam_spark_io.tables.writing import EVERY, TableSink, WriteTable

_MODES = (APPEND, OVERWRITE, OVERWRITE_PARTITIONS, UPSERT)
_TRIES = 10
"""Maximum number of attempts of one commit if other writers change the table at the same time."""


class WriteToIceberg(WriteTable):
    """Transform that writes each row once into an Iceberg table, and emits a result after each commit.

    A bounded pipeline makes one commit at its end, so a failed job leaves the table unchanged. A stream
    commits every few seconds. The table must exist. The transform needs the extra ``iceberg``.

    Args:
        table: name of the table, with its namespace.
        catalog: properties of the catalog, as `pyiceberg.catalog.load_catalog` takes them.
        mode: ``append``; ``upsert`` replaces rows with the same key; in bounded pipelines also
            ``overwrite``, and ``overwrite_partitions``, which replaces the partitions that rows have.
        key: columns that identify a row, for ``upsert``.
        schema: columns of the rows: a NamedTuple, a ``pyarrow.Schema``, or a ``StructType`` of Spark. By
            default those of the element type, otherwise those of the table.
        add_columns: whether the write adds fields that the table doesn't have as columns.
        every: whole seconds between two commits of a stream.
        options: further arguments of `WriteExactlyOnce`.

    Raises:
        ValueError: An argument is invalid, or the mode needs a bounded pipeline.
    """

    def __init__(
        self,
        table: str,
        catalog: Mapping[str, str],
        mode: str = APPEND,
        *,
        key: Sequence[str] = (),
        schema: Any = None,
        add_columns: bool = False,
        every: int = EVERY,
        **options: Any,
    ) -> None:
        target = IcebergTarget(table, dict(catalog), mode, None, tuple(key), add_columns)
        super().__init__(IcebergSink, target, _MODES, {"key": key}, schema, every, options)


class IcebergSink(TableSink[IcebergTarget]):
    """Sink of `WriteToIceberg`."""

    _loader: TableLoader | None = None
    """Loader of the table for the writers of this process."""

    def create_writer(self, run: str) -> TableWriter | None:
        """Returns a writer of data files; None for an upsert, whose committer merges the rows."""
        if self._target.mode == UPSERT:
            return None
        with convert_iceberg_outages(self._target.name, SinkUnavailable):
            table, columns = self._prepare_table()
        return TableWriter(columns, partial(self._stage_rows, table))

    def create_committer(self, run: str, shard: int) -> IcebergCommitter:
        """Returns a committer with a connection to the catalog."""
        return IcebergCommitter(self._target)

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state without the connection to the catalog."""
        return {"_target": self._target}

    def _prepare_table(self) -> tuple[Any, pa.Schema]:
        """Returns the table and the columns of the rows; bundles of the same minute load the table once."""
        if self._loader is None:
            self._loader = TableLoader(self._target.name, self._target.catalog)
        try:
            table = self._loader.load_recent()
            if self._target.mode == OVERWRITE_PARTITIONS:
                check_partitions(table, self._target.name)
            # Data files name columns by number, so new columns must exist before them.
            add_columns(table, self._target)
            return table, _choose_columns(self._target, table)
        except BaseException:
            # The next attempt loads the table, which another program can have changed meanwhile.
            self._loader = None
            raise

    def _stage_rows(self, table: Any, rows: pa.Table) -> list[IcebergFile]:
        with convert_iceberg_outages(self._target.name, SinkUnavailable):
            return stage_files(table, rows)


class IcebergCommitter:
    """Committer that adds one snapshot to the table for each commit.

    Args:
        target: the table and the kind of the write.
    """

    def __init__(self, target: IcebergTarget) -> None:
        self._target = target
        self._loader = TableLoader(target.name, target.catalog)

    def commit(self, commit_id: CommitId, elements: Sequence[Any]) -> int:
        """Adds rows and the commit's number in one change; returns the number of rows."""
        elements = [one for one in elements if one is not None]
        is_upsert = self._target.mode == UPSERT
        rows = len(elements) if is_upsert else sum(one.file.record_count for one in elements)
        with convert_iceberg_outages(self._target.name, SinkUnavailable):
            for _ in range(_TRIES):
                if self._try_commit(commit_id, elements):
                    return rows
        raise SinkUnavailable(
            f"other writers have changed the table {self._target.name} during {_TRIES} attempts"
        )

    def close(self) -> None:
        """Does nothing: the library closes no connection to a catalog."""

    def _try_commit(self, commit_id: CommitId, elements: Sequence[Any]) -> bool:
        """Makes the commit, unless an earlier attempt has already made this commit. Returns False
        if another writer changed the table meanwhile.
        """
        from pyiceberg.exceptions import CommitFailedException

        # A commit updates the loaded table. The catalog refuses a commit to an outdated state.
        table = self._loader.load_recent()
        if is_committed(commit_id, read_mark(table, commit_id.run)):
            return True
        if self._target.mode == UPSERT:
            add_columns(table, self._target)
        # Disable the library's retries, which would add the files again without a check for an earlier attempt.
        table.metadata.properties["commit.retry.num-retries"] = "0"
        summary = make_summary(commit_id.run, commit_id.number, commit_id.digest)
        try:
            with begin_table_change(table) as change:
                self._write_rows(table, change, elements, summary)
        except CommitFailedException:
            self._loader.forget()
            return False
        return True

    def _write_rows(
        self, table: Any, change: Any, elements: Sequence[Any], summary: dict[str, str]
    ) -> None:
        if self._target.mode == UPSERT:
            self._upsert_rows(table, change, elements, summary)
            return
        from pyiceberg.expressions import AlwaysTrue

        check_files(table, self._target.name, elements)
        update = change.update_snapshot(snapshot_properties=summary)
        if self._target.mode == APPEND:
            producer = update.fast_append()
        else:
            producer = update.overwrite()
            for file in self._list_replaced_files(table, elements):
                producer.delete_data_file(file)
        if self._target.mode == OVERWRITE:
            # The library only looks for replaced files where the condition can be true.
            producer.delete_by_predicate(AlwaysTrue())
        with producer:
            for one in elements:
                producer.append_data_file(one.file)

    def _list_replaced_files(self, table: Any, elements: Sequence[Any]) -> Iterable[Any]:
        if self._target.mode == OVERWRITE_PARTITIONS:
            return list_replaced_files(table, self._target.name, elements)
        return (file for _, file in list_data_files(table))

    def _upsert_rows(
        self, table: Any, change: Any, elements: Sequence[Any], summary: dict[str, str]
    ) -> None:
        columns = _choose_columns(self._target, table)
        if missing := set(read_columns(table).names).difference(columns.names):
            raise ValueError(
                f"the rows have no field {min(missing)!r} of the table {self._target.name}; an "
                "upsert"
                " needs all columns"
            )
        last = keep_last_row_per_key(convert_rows(columns, elements), self._target.key)
        result = change.upsert(last, list(self._target.key), snapshot_properties=summary)
        if not result.rows_updated and not result.rows_inserted:
            # The table already contains equal rows. Make a snapshot only for the commit mark.
            with change.update_snapshot(snapshot_properties=summary).fast_append():
                pass


def _choose_columns(target: IcebergTarget, table: Any) -> pa.Schema:
    return choose_columns(
        target.name, read_columns(table), target.declared, adds_columns=target.adds_columns
    )
