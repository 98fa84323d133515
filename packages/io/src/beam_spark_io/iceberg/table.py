"""Operations on Iceberg tables for sinks: load a table, read commit marks from snapshots, and add
columns.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa

from beam_spark_io.exactly_once.protocols import CommitConflict, CommitMark
from beam_spark_io.iceberg.lineage import list_ancestors
from beam_spark_io.tables.columns import find_new_columns, simplify_columns

_RECENT_SECONDS = 60.0
_RUN = "beam.run"
_COMMIT = "beam.commit"
_DIGEST = "beam.digest"


@attrs.frozen
class IcebergTarget:
    """Table and kind of a write.

    Attributes:
        name: name of the table, with its namespace.
        catalog: properties of the catalog.
        mode: ``append``, ``overwrite``, ``overwrite_partitions`` or ``upsert``.
        declared: the columns of the rows; None for those of the table.
        key: columns that identify a row of an upsert.
        adds_columns: whether the write adds columns to the table.
    """

    name: str
    catalog: Mapping[str, str]
    mode: str
    declared: pa.Schema | None
    key: tuple[str, ...]
    adds_columns: bool


class TableLoader:
    """Loader of a table, which connects to the catalog once.

    Args:
        name: name of the table, with its namespace.
        catalog: properties of the catalog.
    """

    def __init__(self, name: str, catalog: Mapping[str, str]) -> None:
        self._name = name
        self._properties = catalog
        self._catalog: Any = None
        self._table: Any = None
        self._loaded = 0.0

    def load(self) -> Any:
        """Returns the table in its current state.

        Raises:
            NoSuchTableError: The catalog has no such table.
        """
        from pyiceberg.catalog import load_catalog

        self._table = None
        if self._catalog is None:
            self._catalog = load_catalog("beam", **self._properties)
        self._table, self._loaded = self._catalog.load_table(self._name), time.monotonic()
        return self._table

    def load_recent(self) -> Any:
        """Returns the table in a state of the last minute. A commit to an outdated state is refused."""
        if self._table is None or time.monotonic() - self._loaded > _RECENT_SECONDS:
            return self.load()
        return self._table

    def forget(self) -> None:
        """Makes the next call of `load_recent` load the table."""
        self._table = None


def load_table(name: str, catalog: Mapping[str, str]) -> Any:
    """Returns a table in its current state.

    Raises:
        NoSuchTableError: The catalog has no such table.
    """
    return TableLoader(name, catalog).load()


def read_columns(table: Any) -> pa.Schema:
    """Returns the columns of the table."""
    return simplify_columns(table.schema().as_arrow())


def read_mark(table: Any, run: str) -> CommitMark:
    """Returns the commit mark (record of the last commit) of a run, from the current snapshot or an
    ancestor.
    """
    for snapshot in list_ancestors(table):
        summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
        if summary.get(_RUN) == run:
            return CommitMark(int(summary[_COMMIT]), bytes.fromhex(summary[_DIGEST]))
    return CommitMark()


def make_summary(run: str, number: int, digest: bytes) -> dict[str, str]:
    """Returns the snapshot properties that record a commit."""
    return {_RUN: run, _COMMIT: str(number), _DIGEST: digest.hex()}


def add_columns(table: Any, target: IcebergTarget) -> None:
    """Adds declared columns that the table doesn't have, to the table and the loaded state."""
    if target.declared is None or not target.adds_columns:
        return
    new = find_new_columns(read_columns(table), target.declared)
    if new:
        with table.update_schema() as update:
            update.union_by_name(pa.schema([field.with_nullable(True) for field in new]))


@attrs.frozen
class IcebergFile:
    """File that a writer has stored, and that a commit adds to the table.

    Attributes:
        spec: the number of the partition spec.
        file: the library's description of the file.
    """

    spec: int
    file: Any


def stage_files(table: Any, rows: pa.Table) -> list[IcebergFile]:
    """Writes rows to data files of the table's partitions. Returns the descriptions of the files."""
    # The library has no public function that writes files for a later commit.
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    spec = table.spec().spec_id
    files = _dataframe_to_data_files(table.metadata, rows, table.io)
    return [IcebergFile(spec, file) for file in files]


def check_files(table: Any, name: str, files: Sequence[IcebergFile]) -> None:
    """Raises an error for files that were written with an earlier partition spec of the table.

    Raises:
        CommitConflict: The partition spec has changed since the writers stored the files.
    """
    if any(file.spec != table.spec().spec_id for file in files):
        raise CommitConflict(
            f"the table {name} has another partition spec than when rows were stored. Start a new "
            "job"
        )
