"""Databases whose transactions go into a log elsewhere, so that the next server on another machine has them.

What is done to such a database is kept as statements. Whoever has committed waits until the log has its transaction;
so the database on this machine's disk is never behind the log, and may be lost with the machine.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from beam_runner_storage.errors import StorageError

Statement = tuple[str, bool, Sequence[Any]]
"""SQL, whether it is done for each of many rows, and the values of its parameters, or the rows of them."""

Transaction = Sequence[Statement]

_CHANGES = ("INSERT", "REPLACE", "UPDATE", "DELETE", "SAVEPOINT", "RELEASE", "ROLLBACK TO")
_OTHERS = ("SELECT", "PRAGMA", "BEGIN", "VACUUM")
_LOGGER = logging.getLogger(__name__)


class LogFailed(StorageError):
    """A log takes nothing more: the server must stop, and the next one goes on from what the log has.

    It may have what was given to it last, or not.
    """


class LogAway(StorageError):
    """A log has not taken something yet, since the place where it is kept is away; it will take it later.

    - `place`: where the log is kept.
    - `reason`: the cause.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place} is unavailable: {reason}")
        self.place = place
        self.reason = reason


class LogFenced(LogFailed):
    """Another server has taken the log over."""


class TransactionLog(Protocol):
    """What was done to one database, in order, kept where other machines find it. Thread-safe."""

    def take_over(self, path: Path) -> Iterable[Transaction]:
        """Makes the log this server's alone, and leaves the last copy of the database at `path`, if there
        is one; returns the transactions after it, oldest first. To be called once, first.

        Raises:
            LogFailed: what is kept is not what was written, or can't be read.
        """

    def begin(self, copy: Path) -> None:
        """Keeps a copy of the database as it is now, and forgets all before it; returns when that is durable.

        Raises:
            LogFailed: it can't be kept, or another server has taken over meanwhile.
        """

    def add(self, transaction: Transaction) -> bool:
        """Takes the next transaction; returns at once, and says whether a copy of the database is due."""

    def keep(self, copy: Path) -> None:
        """Keeps a copy, which has all that was added so far; returns at once. The file goes when it is done."""

    def wait(self, seconds: float | None = None) -> None:
        """Returns when all that was added before is durable.

        Raises:
            LogAway: it is not, after so many seconds. What was added stays, in its order.
            LogFailed: that is not known.
        """


class LoggedConnection(sqlite3.Connection):
    """A connection that gives what it commits to a log, from `begin` on. For one thread at a time."""

    _log: TransactionLog | None = None
    _path: Path
    _statements: list[Statement]

    def begin(self, log: TransactionLog, path: Path) -> None:
        """From now on all that changes the database, which is that at `path`, goes into the log.

        Raises:
            LogFailed: see `TransactionLog.begin`.
            sqlite3.Error, OSError: the database can't be copied.
        """
        self._path = path
        self._statements = []
        log.begin(self._copy())
        self._log = log

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        cursor = super().execute(sql, parameters)
        self._note(sql, False, parameters)
        return cursor

    def executemany(self, sql: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        kept = list(rows)
        cursor = super().executemany(sql, kept)
        self._note(sql, True, kept)
        return cursor

    def _note(self, sql: str, is_many: bool, values: Sequence[Any]) -> None:
        if self._log is None:
            return
        if sql.lstrip().startswith(_CHANGES):
            self._statements.append((sql, is_many, values))
        else:
            assert sql.startswith(_OTHERS), f"whether this changes anything is not known: {sql}"

    def __exit__(self, *raised: Any) -> Literal[False]:
        """See `sqlite3.Connection`; what is committed goes into the log."""
        try:
            super().__exit__(*raised)
        except BaseException:
            self._statements = []
            raise
        if raised[0] is not None:
            self._statements = []
        elif self._log is not None and self._statements:
            self._add(self._log)
        return False

    def _add(self, log: TransactionLog) -> None:
        statements, self._statements = self._statements, []
        if log.add(statements):
            try:
                log.keep(self._copy())
            except (sqlite3.Error, OSError):
                _LOGGER.warning("%s can't be copied; its log grows", self._path, exc_info=True)

    def wait(self, seconds: float | None = None) -> None:
        """Returns when all that was committed before is in the log; may be called from any thread.

        Raises:
            LogAway, LogFailed: see `TransactionLog.wait`.
        """
        if self._log is not None:
            self._log.wait(seconds)

    def _copy(self) -> Path:
        copy = self._path.with_name(f"{self._path.name}.copy")
        copy.unlink(missing_ok=True)
        super().execute("VACUUM INTO ?", (str(copy),))
        return copy


def restore(log: TransactionLog, path: Path) -> None:
    """Make the database at `path`, where there is none yet, of what a log has, if it has anything.

    Raises:
        LogFailed: see `TransactionLog.take_over`; or what the log has does not fit together.
    """
    transactions = list(log.take_over(path))
    if not path.exists():
        if transactions:
            raise LogFailed(f"of {path.name} there are changes, but no copy that they belong to")
        return
    try:
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            for transaction in transactions:
                connection.execute("BEGIN")
                for sql, is_many, values in transaction:
                    (connection.executemany if is_many else connection.execute)(sql, values)
                connection.execute("COMMIT")
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise LogFailed(f"what is kept of {path.name} does not fit together: {error}") from error


def begin(
    connection: sqlite3.Connection, log: TransactionLog, path: Path, damage: Sequence[str]
) -> None:
    """From now on what is done by a connection of `open_database` goes into its log; unless there is damage, which is
    then told, and the log stays as it is.

    Raises:
        LogFailed: there is damage; or see `LoggedConnection.begin`.
    """
    if damage:
        raise LogFailed(f"nothing was changed in what is kept: {'; '.join(damage)}")
    assert isinstance(connection, LoggedConnection)
    connection.begin(log, path)
