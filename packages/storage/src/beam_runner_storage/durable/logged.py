"""SQLite databases whose transactions also go to a remote log, from which a server on another machine
can restore them.

The log stores SQL statements. A commit waits until the log has its transaction. So the database on
this machine's disk is never ahead of the log, and may be lost with the machine.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from beam_runner_storage.errors import StorageError

Statement = tuple[str, bool, Sequence[Any]]
"""A logged statement: SQL, whether it runs for many rows, and its parameters or rows of parameters."""

Transaction = Sequence[Statement]

_CHANGES = ("INSERT", "REPLACE", "UPDATE", "DELETE", "SAVEPOINT", "RELEASE", "ROLLBACK TO")
_OTHERS = ("SELECT", "PRAGMA", "BEGIN", "VACUUM")
_LOGGER = logging.getLogger(__name__)


class LogFailed(StorageError):
    """Raised if a log can't accept any more transactions.

    The server must stop, and the next server continues from the log. The log may or may not contain
    the last transaction.
    """


class LogUnavailable(StorageError):
    """Raised if a transaction isn't in the log yet, because the log's store is unavailable.

    The transaction stays queued, and the log stores it later.

    Attributes:
        reason: the cause.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place} is unavailable: {reason}")
        self.place = place
        self.reason = reason


class LogFenced(LogFailed):
    """Raised if another server has taken over the log."""


class TransactionLog(Protocol):
    """The transactions of one database, in order, in a store that other machines can read. Thread-safe."""

    def take_over_log(self, path: Path) -> Iterable[Transaction]:
        """Takes exclusive ownership of the log, and writes the last copy of the database to `path`, if
        a copy exists.

        Returns the transactions after the copy, oldest first. Must be called once, before the other
        methods.

        Raises:
            LogFailed: The log is damaged, or can't be read.
        """

    def start_log(self, copy: Path) -> None:
        """Stores a copy of the current database, and deletes all earlier data of the log.

        Returns when the copy is durable.

        Raises:
            LogFailed: The copy can't be stored, or another server has taken over the log.
        """

    def add_transaction(self, transaction: Transaction) -> bool:
        """Queues the next transaction without waiting; returns whether a copy of the database is due."""

    def queue_copy_upload(self, copy: Path) -> None:
        """Queues the upload of a database copy, which includes all transactions so far, without
        waiting.

        The file is removed after the upload.
        """

    def wait_until_durable(self, seconds: float | None = None) -> None:
        """Waits until all earlier transactions are durable.

        Raises:
            LogUnavailable: The transactions weren't durable within the time limit. The transactions
                stay in the queue, in order.
            LogFailed: It is unknown whether the transactions are durable.
        """


class LoggedConnection(sqlite3.Connection):
    """A SQLite connection that sends its commits to a log, after `start_log`. For one thread at a time."""

    _log: TransactionLog | None = None
    _path: Path
    _statements: list[Statement]

    def start_log(self, log: TransactionLog, path: Path) -> None:
        """Starts to send all later changes of the database, which is at `path`, to the log.

        Raises:
            LogFailed: See `TransactionLog.start_log`.
            sqlite3.Error, OSError: The database can't be copied.
        """
        self._path = path
        self._statements = []
        log.start_log(self._copy_database())
        self._log = log

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        cursor = super().execute(sql, parameters)
        self._record_statement(sql, False, parameters)
        return cursor

    def executemany(self, sql: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        kept = list(rows)
        cursor = super().executemany(sql, kept)
        self._record_statement(sql, True, kept)
        return cursor

    def _record_statement(self, sql: str, is_many: bool, values: Sequence[Any]) -> None:
        if self._log is None:
            return
        if sql.lstrip().startswith(_CHANGES):
            self._statements.append((sql, is_many, values))
        else:
            assert sql.startswith(_OTHERS), f"unknown kind of SQL statement: {sql}"

    def __exit__(self, *raised: Any) -> Literal[False]:
        """Commits or rolls back, see `sqlite3.Connection`, and sends a commit to the log."""
        try:
            super().__exit__(*raised)
        except BaseException:
            self._statements = []
            raise
        if raised[0] is not None:
            self._statements = []
        elif self._log is not None and self._statements:
            self._send_transaction_to_log(self._log)
        return False

    def _send_transaction_to_log(self, log: TransactionLog) -> None:
        statements, self._statements = self._statements, []
        if log.add_transaction(statements):
            try:
                log.queue_copy_upload(self._copy_database())
            except (sqlite3.Error, OSError):
                _LOGGER.warning(
                    "Can't write a copy of %s to the store; its log grows",
                    self._path,
                    exc_info=True,
                )

    def wait_until_durable(self, seconds: float | None = None) -> None:
        """Waits until all earlier commits are in the log; any thread may call this method.

        Raises:
            LogUnavailable, LogFailed: See `TransactionLog.wait_until_durable`.
        """
        if self._log is not None:
            self._log.wait_until_durable(seconds)

    def _copy_database(self) -> Path:
        copy = self._path.with_name(f"{self._path.name}.copy")
        copy.unlink(missing_ok=True)
        super().execute("VACUUM INTO ?", (str(copy),))
        return copy


def restore_database(log: TransactionLog, path: Path) -> None:
    """Creates the database at `path` from a log, unless the log is empty.

    Raises:
        LogFailed: see `TransactionLog.take_over_log`; or the parts of the log are inconsistent.
    """
    transactions = list(log.take_over_log(path))
    if not path.exists():
        if transactions:
            raise LogFailed(
                f"the store has changes of {path.name}, but not the copy to which they belong"
            )
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
        raise LogFailed(
            f"the stored changes can't be applied to the stored copy of database {path.name}: {error}"
        ) from error


def start_logging(
    connection: sqlite3.Connection, log: TransactionLog, path: Path, damage: Sequence[str]
) -> None:
    """Starts the log of a connection of `open_database`, unless data is damaged.

    Raises:
        LogFailed: Data is damaged, so the log stays unchanged; or see `LoggedConnection.start_log`.
    """
    if damage:
        raise LogFailed(f"data is damaged, so the log stays unchanged: {'; '.join(damage)}")
    assert isinstance(connection, LoggedConnection)
    connection.start_log(log, path)
