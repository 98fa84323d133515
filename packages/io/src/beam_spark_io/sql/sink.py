"""`WriteToSql`, which writes rows once into a table of SQLite, PostgreSQL or MariaDB.

One commit is one transaction. It changes the mark of its run and shard from the previous number to
its own number, and writes the rows. If the mark has another number, another attempt has already
made the commit. A concurrent attempt waits for the lock of the mark's row.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_spark_io.exactly_once.protocols import (
    CommitConflict,
    CommitId,
    SinkUnavailable,
    is_committed,
)
from beam_spark_io.exactly_once.transform import WriteExactlyOnce
from beam_spark_io.sql.dialects import DIALECTS, SqlDialect
from beam_spark_io.sql.marks import SqlMarks
from beam_spark_io.sql.row_sizes import check_row_sizes


class WriteToSql(beam.PTransform):
    """Transform that inserts each row once, or replaces the row with the same key.

    Rows of one key have one shard, in the order of the bundles. The table must exist. The database gets
    a table `beam_exactly_once` with one row for each run and shard.

    Args:
        connect: function without arguments that returns a DB-API connection without autocommit, such as
            ``functools.partial(psycopg.connect, "dbname=shop")``; Beam pickles it.
        dialect: ``sqlite``, ``postgresql`` or ``mariadb``.
        table: name of the table, with its schema if needed.
        columns: names of the columns. Each element is a mapping, or a row with these fields.
        key: columns of a unique key, whose row is replaced; no key only inserts.
        shards: number of parallel connections.
        options: further arguments of `WriteExactlyOnce`.

    Raises:
        ValueError: The dialect is unknown, there are no columns, or the key isn't in the columns.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        dialect: str,
        table: str,
        columns: Sequence[str],
        key: Sequence[str] = (),
        shards: int = 1,
        **options: Any,
    ) -> None:
        super().__init__()
        if dialect not in DIALECTS:
            raise ValueError(f"dialect is {dialect!r}; expected one of {', '.join(DIALECTS)}")
        if not columns:
            raise ValueError(
                "columns is empty; expected the columns that WriteToSql writes to the table "
                f"{table!r}"
            )
        if missing := [column for column in key if column not in columns]:
            raise ValueError(f"key has {', '.join(missing)}, which isn't one of the columns")
        sink = SqlSink(connect, dialect, table, tuple(columns), tuple(key), shards)
        self._write = WriteExactlyOnce(sink, **options)

    def expand(self, rows: PCollection[Any]) -> PCollection[Any]:
        """Returns the results of the commits; each has the number of rows."""
        results: PCollection[Any] = rows | "Rows" >> self._write
        return results


class SqlSink:
    """Sink of `WriteToSql`."""

    def __init__(
        self,
        connect: Callable[[], Any],
        dialect: str,
        table: str,
        columns: tuple[str, ...],
        key: tuple[str, ...],
        shards: int,
    ) -> None:
        self.shards = shards
        self._connect = connect
        self._dialect = dialect
        self._table = table
        self._columns = columns
        self._key = key

    def select_shard(self, element: Any) -> int:
        """Returns the shard of a row's key; without a key, of the whole row."""
        if self.shards == 1:
            return 0
        names = self._key or self._columns
        return (
            zlib.crc32(repr([_get_value(element, name) for name in names]).encode()) % self.shards
        )

    def create_committer(self, run: str, shard: int) -> SqlCommitter:
        """Returns a committer with a separate connection."""
        dialect = DIALECTS[self._dialect]
        return SqlCommitter(
            self._connect, dialect, self._table, self._columns, self._key, (run, shard)
        )


class SqlCommitter:
    """Committer of one shard, with one connection.

    Args:
        connect: function that returns a connection.
        key: columns of the key, or nothing.
        place: run and shard.

    Raises:
        SinkUnavailable: The database doesn't answer now.
        ValueError: The connection or a table has no transactions.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        dialect: SqlDialect,
        table: str,
        columns: tuple[str, ...],
        key: tuple[str, ...],
        place: tuple[str, int],
    ) -> None:
        self._dialect = dialect
        self._statement = dialect.insert(table, columns, key)
        self._columns = columns
        with self._convert_errors():
            self._connection = connect()
            self._marks = SqlMarks(self._connection, dialect, place)
            try:
                cursor = self._connection.cursor()
                if dialect.limit_idle_transactions:
                    cursor.execute(dialect.limit_idle_transactions)
                dialect.check_engine(cursor, table)
                self._limit = dialect.read_statement_limit(cursor)
                self._connection.commit()
                self._marks.create()
            except BaseException:
                self.close()
                raise

    def commit(self, commit_id: CommitId, elements: Sequence[Any]) -> int:
        """Writes rows and the commit's number in one transaction; returns the number of rows.

        Raises:
            SinkUnavailable: The database doesn't accept the commit now.
            CommitConflict: The mark contradicts the commit ID.
            ValueError: A row is larger than the database accepts.
        """
        rows = [tuple(_get_value(one, name) for name in self._columns) for one in elements]
        with self._convert_errors():
            try:
                if self._marks.change(commit_id):
                    self._connection.cursor().executemany(self._statement, rows)
                    self._connection.commit()
                else:
                    self._check_stored(commit_id)
                    self._connection.rollback()
            except BaseException:
                # The connection can be lost here. Ignore this error, because the first error contains the reason.
                with contextlib.suppress(Exception):
                    self._connection.rollback()
                if self._limit is not None:
                    check_row_sizes(rows, self._limit)
                raise
        return len(rows)

    def close(self) -> None:
        """Closes the connection. Ignores errors: some drivers can close a connection only on the
        thread that opened it.
        """
        with contextlib.suppress(Exception):
            self._connection.close()

    def _check_stored(self, commit_id: CommitId) -> None:
        if not is_committed(commit_id, self._marks.read()):
            raise CommitConflict(
                f"another process has changed the commit mark in the database during {commit_id}"
            )

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not self._dialect.is_unavailable(error):
                raise
            raise SinkUnavailable(f"the database doesn't accept the commit now: {error}") from error


def _get_value(element: Any, name: str) -> Any:
    return element[name] if isinstance(element, Mapping) else getattr(element, name)
