"""Group commit: of what many threads write at a time, one of them makes one transaction for all.

So a hundred jobs that begin together wait for the disk a few times, and not one after the other.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

import attrs

from .databases import transaction
from .seals import Change, Seals

_Result = TypeVar("_Result")

Write = Callable[[sqlite3.Connection, Change], _Result]
"""Writes by the connection, within a transaction of others, and tells which items of the seal changed."""


@attrs.define(eq=False)
class _Waiting(Generic[_Result]):
    """A write from when it was asked for until it is committed, or has failed."""

    write: Write[_Result]
    durable: bool
    changes: list[tuple[int | None, int | None]] = attrs.field(factory=list)
    result: _Result | None = None
    error: BaseException | None = None
    ended: bool = False

    def change(self, before: int | None, after: int | None) -> None:
        self.changes.append((before, after))


class Commits:
    """Writes to one database. Thread-safe.

    `mutex` is held while anything is done by the connection; whoever else uses it holds it, too.
    """

    def __init__(self, connection: sqlite3.Connection, seals: Seals, mutex: threading.Lock) -> None:
        self._connection = connection
        self._seals = seals
        self._mutex = mutex
        self._waiting_lock = threading.Lock()
        self._waiting: list[_Waiting[Any]] = []

    def durable(self, write: Write[_Result]) -> _Result:
        """What `write` returns, when all it wrote is on the disk, with all before it, and sealed.

        Raises:
            sqlite3.Error, OSError: see `Seals.transaction`; or whatever `write` raises, and then nothing
                it did has happened.
        """
        return self._commit(_Waiting(write, durable=True))

    def quick(self, write: Write[_Result]) -> _Result:
        """What `write` returns, when all it wrote survives the end of the process; it changes no item.

        Raises:
            sqlite3.Error: the database cannot be written; or whatever `write` raises.
        """
        return self._commit(_Waiting(write, durable=False))

    def _commit(self, mine: _Waiting[_Result]) -> _Result:
        with self._waiting_lock:
            self._waiting.append(mine)
        # Who comes to hold it writes for all who wait, and most find that theirs is done.
        with self._mutex:
            if not mine.ended:
                with self._waiting_lock:
                    group, self._waiting = self._waiting, []
                self._commit_together(group)
        if mine.error is not None:
            raise mine.error
        return cast("_Result", mine.result)

    def _commit_together(self, group: Sequence[_Waiting[Any]]) -> None:
        try:
            if any(one.durable for one in group):
                self._connection.execute("PRAGMA synchronous = FULL")
                with self._seals.transaction(self._connection) as change:
                    self._write_all(group)
                    for one in group:
                        for before, after in one.changes:
                            change(before, after)
            else:
                self._connection.execute("PRAGMA synchronous = NORMAL")
                with transaction(self._connection):
                    self._write_all(group)
        except BaseException as error:
            for one in group:
                one.error = one.error or error
        finally:
            for one in group:
                one.ended = True

    def _write_all(self, group: Sequence[_Waiting[Any]]) -> None:
        """Each write happens as a whole or not at all, whatever becomes of the others."""
        connection = self._connection
        for one in group:
            connection.execute("SAVEPOINT one")
            try:
                one.result = one.write(connection, one.change)
            except BaseException as error:
                if not connection.in_transaction:
                    # A full disk, for one, takes back the whole transaction.
                    raise
                connection.execute("ROLLBACK TO one")
                one.error = error
                one.changes.clear()
            connection.execute("RELEASE one")
