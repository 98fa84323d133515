"""The journal of one job: entries in the order in which they were committed, and the last snapshot.

Entries are numbered from 0 for the life of the job. A snapshot stands for all entries before it, which
go with it. Number, job and content make an entry's checksum, so that one that is missing, moved or
changed is found.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import attrs

from beam_spark_executor.journal.errors import JournalDamaged

_PLACES = 1 << 40
"""An entry's place in its table is ``journal * _PLACES + number``: a journal is one range of keys."""


@attrs.frozen
class Recovered:
    """What a journal holds: the last snapshot, and the entries after it, oldest first."""

    snapshot: bytes | None
    entries: tuple[bytes, ...]


class Journal:
    """One job's journal, of a ``Store``. For one thread at a time.

    Every method raises ``JournalFenced`` if another server has taken over the folder, and
    ``JournalError`` if the file cannot be read or written.
    """

    def __init__(
        self, job_id: str, transaction: Callable[[], AbstractContextManager[sqlite3.Connection]]
    ) -> None:
        self.job_id = job_id
        self._transaction = transaction
        self._key: int | None = None
        self._next = 0

    @property
    def exists(self) -> bool:
        """Whether anything was ever kept here, and not deleted."""
        with self._transaction() as connection:
            return _key(connection, self.job_id) is not None

    def append(self, entries: Sequence[bytes]) -> None:
        """Commits all ``entries`` or none; returns when they are durable.

        Costs a write of about the entries' size, and where the store is durable an fsync.
        """
        with self._transaction() as connection:
            key, number = self._position(connection)
            connection.executemany(
                "INSERT INTO entries VALUES (?, ?, ?)",
                (
                    (key * _PLACES + at, _checksum(self.job_id, "entry", at, entry), entry)
                    for at, entry in enumerate(entries, number)
                ),
            )
        self._key, self._next = key, number + len(entries)

    def snapshot(self, state: bytes) -> None:
        """Keeps ``state`` in place of the snapshot and the entries so far, in one transaction."""
        with self._transaction() as connection:
            key, number = self._position(connection)
            connection.execute(
                "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)",
                (key, number, _checksum(self.job_id, "snapshot", number, state), state),
            )
            connection.execute("DELETE FROM entries WHERE place BETWEEN ? AND ?", _range(key))
        self._key, self._next = key, number

    def recover(self) -> Recovered:
        """What was committed. Reads all of it into memory.

        Raises:
            JournalDamaged: it is not what was written.
        """
        with self._transaction() as connection:
            key = _key(connection, self.job_id)
            if key is None:
                return Recovered(None, ())
            state, number = _snapshot(connection, self.job_id, key)
            return Recovered(state, tuple(_entries(connection, self.job_id, key, number)))

    def delete(self) -> None:
        """Removes the journal, if there is one."""
        with self._transaction() as connection:
            forget(connection, self.job_id)
        self._key, self._next = None, 0

    def _position(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """The journal's key, made where it is new, and the number of the next entry."""
        if self._key is not None:
            return self._key, self._next
        key = _key(connection, self.job_id)
        if key is None:
            made = connection.execute("INSERT INTO journals (job_id) VALUES (?)", (self.job_id,))
            assert made.lastrowid is not None
            return made.lastrowid, 0
        (last,) = connection.execute(
            "SELECT max(place) FROM entries WHERE place BETWEEN ? AND ?", _range(key)
        ).fetchone()
        if last is not None:
            return key, last % _PLACES + 1
        return key, _snapshot(connection, self.job_id, key)[1]


def verify(connection: sqlite3.Connection, job_id: str) -> None:
    """Reads the journal of ``job_id``.

    Raises:
        JournalDamaged: it is not what was written.
    """
    key = _key(connection, job_id)
    if key is not None:
        _, number = _snapshot(connection, job_id, key)
        for _ in _entries(connection, job_id, key, number):
            pass


def forget(connection: sqlite3.Connection, job_id: str) -> None:
    """Removes the journal of ``job_id`` within the present transaction."""
    key = _key(connection, job_id)
    if key is not None:
        connection.execute("DELETE FROM entries WHERE place BETWEEN ? AND ?", _range(key))
        connection.execute("DELETE FROM snapshots WHERE journal = ?", (key,))
        connection.execute("DELETE FROM journals WHERE journal = ?", (key,))


def _key(connection: sqlite3.Connection, job_id: str) -> int | None:
    found = connection.execute("SELECT journal FROM journals WHERE job_id = ?", (job_id,))
    row = found.fetchone()
    return None if row is None else int(row[0])


def _snapshot(connection: sqlite3.Connection, job_id: str, key: int) -> tuple[bytes | None, int]:
    """The snapshot, if there is one, and how many entries it stands for."""
    row = connection.execute(
        "SELECT entries, checksum, state FROM snapshots WHERE journal = ?", (key,)
    ).fetchone()
    if row is None:
        return None, 0
    number, checksum, state = row
    if not _is_whole(checksum, job_id, "snapshot", number, state):
        raise JournalDamaged(f"its snapshot after {number} entries has another checksum")
    return state, number


def _entries(connection: sqlite3.Connection, job_id: str, key: int, first: int) -> Iterator[bytes]:
    found = connection.execute(
        "SELECT place, checksum, entry FROM entries WHERE place BETWEEN ? AND ? ORDER BY place",
        _range(key),
    )
    for expected, (place, checksum, entry) in enumerate(found, first):
        if place != key * _PLACES + expected:
            raise JournalDamaged(f"entry {expected} is missing")
        if not _is_whole(checksum, job_id, "entry", expected, entry):
            raise JournalDamaged(f"entry {expected} has another checksum")
        yield entry


def _range(key: int) -> tuple[int, int]:
    return key * _PLACES, (key + 1) * _PLACES - 1


def _is_whole(checksum: int, job_id: str, kind: str, number: int, content: object) -> bool:
    return isinstance(content, bytes) and checksum == _checksum(job_id, kind, number, content)


def _checksum(job_id: str, kind: str, number: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(f"{job_id}/{kind}/{number}".encode()))
