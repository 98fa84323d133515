"""`WriteToDelta`, which writes each row once into a Delta table.

Writers store data files, which readers don't see before a commit. One commit adds the files of all
bundles to the table's log, in one log entry. This entry also sets two application transactions
(Delta's `txn` actions): the number of the commit, and a part of its digest. The library refuses an
entry if another entry has changed these transactions since the committer read them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from beam_spark_io.delta.files import DeltaFile, write_files
from beam_spark_io.delta.outages import convert_delta_outages
from beam_spark_io.delta.storage import locate_table
from beam_spark_io.delta.table import (
    DeltaTarget,
    add_columns,
    check_files,
    check_table,
    choose_file_columns,
    create_table,
    filter_partitions,
    open_files,
    open_table,
    read_columns,
    read_declared_columns,
)
from beam_spark_io.exactly_once.protocols import (
    CommitId,
    CommitMark,
    SinkUnavailable,
    is_committed,
)
from beam_spark_io.tables.columns import choose_columns, keep_last_row_per_key
from beam_spark_io.tables.modes import APPEND, OVERWRITE, OVERWRITE_PARTITIONS, UPSERT
from beam_spark_io.tables.writer import TableWriter, convert_rows
from beam_spark_io.tables.writing import EVERY, TableSink, WriteTable

_MODES = (APPEND, OVERWRITE, OVERWRITE_PARTITIONS, UPSERT)
_DIGEST_BYTES = 8
_UNSAFE = ("aws_s3_allow_unsafe_rename", "allow_unsafe_rename")


class WriteToDelta(WriteTable):
    """Transform that writes each row once into a Delta table, and emits a result after each commit.

    A bounded pipeline makes one commit at its end, so a failed job leaves the table unchanged. A stream
    commits every few seconds. The transform needs the extra ``delta``.

    Args:
        table: folder of the table, or its URL.
        mode: ``append``; ``upsert`` replaces rows with the same key; in bounded pipelines also
            ``overwrite``, and ``overwrite_partitions``, which replaces the partitions that rows have.
        partition_by: partition columns of a table that doesn't exist yet, which the first commit creates.
        key: columns that identify a row, for ``upsert``.
        schema: columns of the rows: a NamedTuple, a ``pyarrow.Schema``, or a ``StructType`` of Spark. By
            default those of the element type, otherwise those of the table.
        add_columns: whether the write adds fields that the table doesn't have as columns.
        storage_options: options of the object store, as `deltalake` names them.
        every: whole seconds between two commits of a stream.
        options: further arguments of `WriteExactlyOnce`.

    Raises:
        ValueError: An argument is invalid, or the mode needs a bounded pipeline.
    """

    def __init__(
        self,
        table: str,
        mode: str = APPEND,
        *,
        partition_by: Sequence[str] = (),
        key: Sequence[str] = (),
        schema: Any = None,
        add_columns: bool = False,
        storage_options: Mapping[str, str] | None = None,
        every: int = EVERY,
        **options: Any,
    ) -> None:
        for option in storage_options or {}:
            if option.lower() in _UNSAFE:
                raise ValueError(
                    f"storage_options has {option}, with which two commits can overwrite each other"
                )
        target = DeltaTarget(
            url=locate_table(table),
            mode=mode,
            declared=None,
            partition_by=tuple(partition_by),
            key=tuple(key),
            adds_columns=add_columns,
            storage_options=dict(storage_options or {}),
        )
        named = {"partition_by": partition_by, "key": key}
        super().__init__(DeltaSink, target, _MODES, named, schema, every, options)


class DeltaSink(TableSink[DeltaTarget]):
    """Sink of `WriteToDelta`."""

    def create_writer(self, run: str) -> TableWriter | None:
        """Returns a writer of data files; None for an upsert, whose committer merges the rows."""
        if self._target.mode == UPSERT:
            return None
        with convert_delta_outages(self._target.url, SinkUnavailable):
            table = open_table(self._target)
            columns, partition_by = choose_file_columns(self._target, table)
        return TableWriter(columns, partial(self._stage_rows, partition_by, run))

    def create_committer(self, run: str, shard: int) -> DeltaCommitter:
        """Returns a committer, which opens the table for each commit."""
        return DeltaCommitter(self._target, run)

    def _stage_rows(self, partition_by: Sequence[str], run: str, rows: pa.Table) -> list[DeltaFile]:
        with convert_delta_outages(self._target.url, SinkUnavailable):
            return write_files(rows, partition_by, open_files(self._target), run)


class DeltaCommitter:
    """Committer of one run, which writes one entry of the table's log for each commit.

    Args:
        target: the table and the kind of the write.
        run: the write of the job.
    """

    def __init__(self, target: DeltaTarget, run: str) -> None:
        self._target = target
        self._number = f"beam-{run}"
        self._digest = f"beam-{run}-digest"

    def commit(self, commit_id: CommitId, elements: Sequence[Any]) -> int:
        """Adds rows and the commit's number in one log entry. Returns the number of rows."""
        is_upsert = self._target.mode == UPSERT
        elements = [one for one in elements if one is not None]
        rows = len(elements) if is_upsert else sum(file.rows for file in elements)
        with convert_delta_outages(self._target.url, SinkUnavailable):
            table = open_table(self._target)
            if table is None:
                # Refuse a later commit before a new table takes the place of the lost table.
                is_committed(commit_id, CommitMark())
                table = create_table(self._target)
            if not is_committed(commit_id, self._read_mark(table, commit_id)):
                check_table(table, self._target)
                table = add_columns(table, self._target)
                write = self._merge_rows if is_upsert else self._add_files
                write(table, elements, self._make_properties(commit_id))
        return rows

    def close(self) -> None:
        """Does nothing: a table has no connection to close."""

    def _read_mark(self, table: Any, commit_id: CommitId) -> CommitMark:
        number = table.transaction_version(self._number)
        if number is None:
            return CommitMark()
        is_same = table.transaction_version(self._digest) == _shorten_digest(commit_id.digest)
        return CommitMark(number, commit_id.digest if is_same else b"")

    def _make_properties(self, commit_id: CommitId) -> Any:
        from deltalake import CommitProperties, Transaction

        # With these times, a table property can remove commit marks of ended runs.
        now = int(time.time() * 1000)
        return CommitProperties(
            app_transactions=[
                Transaction(self._number, commit_id.number, now),
                Transaction(self._digest, _shorten_digest(commit_id.digest), now),
            ],
            custom_metadata={"beam.run": commit_id.run, "beam.commit": str(commit_id.number)},
        )

    def _add_files(self, table: Any, files: Sequence[DeltaFile], properties: Any) -> None:
        from deltalake.transaction import AddAction

        check_files(self._target.url, read_columns(table), files)
        partition_by = table.metadata().partition_columns
        table.create_write_transaction(
            [
                AddAction(
                    file.path, file.size, file.partition, file.modified, True, file.statistics
                )
                for file in files
            ],
            APPEND if self._target.mode == APPEND else OVERWRITE,
            table.schema(),
            partition_by,
            partition_filters=filter_partitions(self._target, partition_by, files),
            commit_properties=properties,
        )

    def _merge_rows(self, table: Any, elements: Sequence[Any], properties: Any) -> None:
        columns = choose_columns(
            self._target.url,
            read_columns(table),
            read_declared_columns(self._target),
            adds_columns=self._target.adds_columns,
        )
        rows = keep_last_row_per_key(convert_rows(columns, elements), self._target.key)
        values = {_quote_name(name): f"source.{_quote_name(name)}" for name in columns.names}
        is_same = (
            f"target.{_quote_name(name)} = source.{_quote_name(name)}" for name in self._target.key
        )
        merge = table.merge(
            rows,
            " AND ".join(is_same),
            source_alias="source",
            target_alias="target",
            commit_properties=properties,
        )
        merge.when_matched_update(values).when_not_matched_insert(values).execute()


def _quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _shorten_digest(digest: bytes) -> int:
    """Returns a part of a digest as a positive 63-bit number, the type of application transactions in the log."""
    return int.from_bytes(digest[:_DIGEST_BYTES], "big") >> 1
