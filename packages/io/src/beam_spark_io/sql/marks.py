"""Commit marks of `WriteToSql`: a table in the database with the last commit of each run and shard."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from typing import Any

from beam_spark_io.exactly_once.protocols import CommitId, CommitMark
from beam_spark_io.sql.dialects import MARKS, SqlDialect

_NO_SHARD = -1


class SqlMarks:
    """Commit mark of one shard in one run: a table row with the number of the last commit. The
    transaction that writes the rows of a commit also changes the mark.

    Args:
        place: run and shard.
    """

    def __init__(self, connection: Any, dialect: SqlDialect, place: tuple[str, int]) -> None:
        self._connection = connection
        self._dialect = dialect
        self._place = place

    def create(self) -> None:
        """Creates the table of commit marks, and this mark, unless they exist.

        Raises:
            ValueError: The connection or the table has no transactions.
        """
        self._create_table()
        self._check_transactions()
        self._execute_statement(self._dialect.make_insert_mark_statement(), self._place)
        self._connection.commit()

    def change(self, commit_id: CommitId) -> bool:
        """Changes the commit mark from the number of the previous commit to the number of this
        commit.

        Returns:
            False if the mark has another number than the previous commit's.
        """
        p = self._dialect.placeholder
        cursor = self._execute_statement(
            f"UPDATE {MARKS} SET number = {p}, digest = {p}"
            f" WHERE run = {p} AND shard = {p} AND number = {p}",
            (commit_id.number, commit_id.digest.hex(), *self._place, commit_id.number - 1),
        )
        return bool(cursor.rowcount == 1)

    def read(self) -> CommitMark:
        """Reads the commit mark."""
        found = self._find_row(self._place)
        return CommitMark() if found is None else CommitMark(found[0], bytes.fromhex(found[1]))

    def _create_table(self) -> None:
        # Check first whether the table exists, because the database user can lack the right to create tables.
        if self._has_table():
            return
        try:
            self._execute_statement(self._dialect.create_marks())
            self._connection.commit()
        except Exception:
            self._roll_back()
            # In PostgreSQL, the statement fails if another shard creates the table at the same time.
            if not self._has_table():
                raise

    def _has_table(self) -> bool:
        try:
            self._find_row(self._place)
        except Exception:
            self._roll_back()
            return False
        return True

    def _check_transactions(self) -> None:
        """Checks that a rollback undoes a row. Without transactions, a crash can separate mark and rows."""
        probe = (uuid.uuid4().hex, _NO_SHARD)
        self._execute_statement(self._dialect.make_insert_mark_statement(), probe)
        self._connection.rollback()
        if self._find_row(probe) is None:
            return
        self._execute_statement(f"DELETE FROM {MARKS} WHERE shard = {_NO_SHARD}")
        self._connection.commit()
        raise ValueError(
            f"transactions don't work: a rollback doesn't undo changes of the table {MARKS}: "
            "`connect` must return connections"
            " without autocommit, and the table must have transactions"
        )

    def _find_row(self, place: tuple[str, int]) -> Any:
        p = self._dialect.placeholder
        query = f"SELECT number, digest FROM {MARKS} WHERE run = {p} AND shard = {p}"
        return self._execute_statement(query, place).fetchone()

    def _execute_statement(self, statement: str, values: Sequence[Any] = ()) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(statement, values)
        return cursor

    def _roll_back(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.rollback()
