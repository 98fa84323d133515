"""Group commit: one thread commits the writes of many threads in one transaction.

A hundred jobs that start together then wait for a few disk syncs instead of a hundred.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

import attrs

from beam_runner_storage.durable.databases import begin_transaction, is_unavailable_error
from beam_runner_storage.durable.logged import LoggedConnection, LogUnavailable
from beam_runner_storage.durable.seals import Change, DatabaseSeal

_Result = TypeVar("_Result")
_AGAIN_SECONDS = 0.5
_LOGGER = logging.getLogger(__name__)

Write = Callable[[sqlite3.Connection, Change], _Result]
"""Function that writes with the connection, within a shared transaction, and reports the items whose
checksums it changed.
"""


@attrs.define(eq=False)
class _PendingWrite(Generic[_Result]):
    """A requested write, which waits in the queue until the write is committed or has failed."""

    write: Write[_Result]
    durable: bool
    changes: list[tuple[int | None, int | None]] = attrs.field(factory=list)
    result: _Result | None = None
    error: BaseException | None = None
    ended: bool = False

    def record_content_change(self, before: int | None, after: int | None) -> None:
        self.changes.append((before, after))


class GroupCommitter:
    """Writer of one database, which commits queued writes together. Thread-safe.

    Every user of the connection holds `mutex`.
    """

    def __init__(
        self, connection: sqlite3.Connection, seals: DatabaseSeal, mutex: threading.Lock
    ) -> None:
        self._connection = connection
        self._seals = seals
        self._mutex = mutex
        self._turn = threading.Condition()
        self._waiting: list[_PendingWrite[Any]] = []
        self._someone_writes = False
        self._hurried = threading.Event()

    def stop_retries(self) -> None:
        """Ends all retries of `commit_with_retries`, because the server stops."""
        self._hurried.set()

    def commit_with_retries(self, write: Write[_Result]) -> _Result:
        """Writes as `commit_durably` does, and retries while the disk is full or unavailable.

        The retries end with `stop_retries`.

        Raises:
            sqlite3.Error, OSError, LogFailed: see `commit_durably`.
        """
        told = False
        while True:
            try:
                result = self.commit_durably(write)
            except sqlite3.Error as error:
                if not is_unavailable_error(error) or self._hurried.wait(_AGAIN_SECONDS):
                    raise
                if not told:
                    _LOGGER.warning("Can't write the list of jobs; jobs wait: %s", error)
                told = True
            else:
                if told:
                    _LOGGER.warning("writes to the list of jobs succeed again")
                return result

    def commit_durably(self, write: Write[_Result]) -> _Result:
        """Runs `write`, and returns the result when the changes of `write` are durable.

        Durable means on the disk, or in the database's log. All earlier changes are durable, too.

        Raises:
            sqlite3.Error, OSError: See `DatabaseSeal.begin_sealed_transaction`; or an error of
                `write`, whose changes are rolled back.
            LogFailed: The log doesn't accept the transaction.
        """
        return self._commit_within_limit(write, None)

    def commit_in_time(self, write: Write[None], undo: Write[None], seconds: float) -> None:
        """Writes as `commit_durably` does. Runs `undo` if the log's store is unavailable for longer than
        a time limit.

        The log still stores the changes of `write` later, followed by the changes of `undo`.

        Args:
            undo: function that reverts the changes of `write`.

        Raises:
            LogUnavailable: The changes are undone.
            sqlite3.Error, OSError, LogFailed: See `commit_durably`.
        """
        try:
            self._commit_within_limit(write, seconds)
        except LogUnavailable:
            with suppress(LogUnavailable):
                self._commit_within_limit(undo, 0.0)
            raise

    def _commit_within_limit(self, write: Write[_Result], seconds: float | None) -> _Result:
        result = self._queue_write(_PendingWrite(write, durable=True))
        if isinstance(self._connection, LoggedConnection):
            self._connection.wait_until_durable(seconds)
        return result

    def commit_without_sync(self, write: Write[_Result]) -> _Result:
        """Runs `write`, and returns its result after the commit. `write` must not change data that
        the seal (the stored checksum of the database) covers.

        The changes survive the end of the process, but not a crash of the machine.

        Raises:
            sqlite3.Error: The database can't be written; or an error of `write`.
        """
        return self._queue_write(_PendingWrite(write, durable=False))

    def _queue_write(self, mine: _PendingWrite[_Result]) -> _Result:
        with self._turn:
            self._waiting.append(mine)
            self._turn.wait_for(lambda: mine.ended or not self._someone_writes)
            leads = not mine.ended
            if leads:
                self._someone_writes = True
        if leads:
            self._commit_queued_writes()
        if mine.error is not None:
            raise mine.error
        return cast("_Result", mine.result)

    def _commit_queued_writes(self) -> None:
        group: list[_PendingWrite[Any]] = []
        try:
            with self._mutex:
                with self._turn:
                    group, self._waiting = self._waiting, []
                self._commit_group(group)
        finally:
            # Wake the threads that wait for a commit here, without holding `mutex`. Otherwise,
            # finished threads would delay new writes, and few writes would share a transaction.
            with self._turn:
                for one in group:
                    one.ended = True
                self._someone_writes = False
                self._turn.notify_all()

    def _commit_group(self, group: Sequence[_PendingWrite[Any]]) -> None:
        try:
            if any(one.durable for one in group):
                self._set_synchronous("FULL")
                with self._seals.begin_sealed_transaction(self._connection) as change:
                    self._run_queued_writes(group)
                    for one in group:
                        for before, after in one.changes:
                            change(before, after)
            else:
                self._set_synchronous("NORMAL")
                with begin_transaction(self._connection):
                    self._run_queued_writes(group)
        except BaseException as error:
            for one in group:
                one.error = one.error or error

    def _set_synchronous(self, how: str) -> None:
        # A LoggedConnection needs no disk sync, because the log makes its data durable.
        if not isinstance(self._connection, LoggedConnection):
            self._connection.execute(f"PRAGMA synchronous = {how}")

    def _run_queued_writes(self, group: Sequence[_PendingWrite[Any]]) -> None:
        """Runs each write in a savepoint, so that each succeeds or fails independently of the others."""
        connection = self._connection
        for one in group:
            connection.execute("SAVEPOINT one")
            try:
                one.result = one.write(connection, one.record_content_change)
            except BaseException as error:
                if not connection.in_transaction:
                    # Some errors, such as a full disk, roll back the whole transaction.
                    raise
                connection.execute("ROLLBACK TO one")
                one.error = error
                one.changes.clear()
            connection.execute("RELEASE one")
