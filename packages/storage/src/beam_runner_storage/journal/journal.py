"""The journal of one job: the last snapshot, and the entries after it in the order of their commits.

Entries have numbers from 0 that are never reused within the job. A snapshot replaces all entries
before it. Checksums form a chain: the checksum of an entry also covers all entries before it, up to
the snapshot. The last checksum, the journal's head, is stored separately, so missing, moved and
changed entries are detected.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import attrs

from beam_runner_storage.durable.seals import Change
from beam_runner_storage.journal.errors import JournalDamaged, JournalError, JournalFenced
from beam_runner_storage.journal.lineages import add_successor, read_successor, remove_lineage

_PLACES = 1 << 40
"""Factor in the key of an entry, ``journal * _PLACES + number``, so that the keys of a journal are adjacent."""


@attrs.frozen
class RecoveredJournal:
    """The content of a journal: the last snapshot, and the entries after it, oldest first.

    Attributes:
        snapshot: the snapshot; None if the journal has no snapshot.
        entries: the entries after the snapshot.
        first: the number of the first of these entries. Comparisons ignore the number.
    """

    snapshot: bytes | None
    entries: tuple[bytes, ...]
    first: int = attrs.field(default=0, eq=False)


@attrs.frozen
class _JournalEnd:
    """The end of a journal: the journal's key, the number of the next entry, and the head (checksum
    of all entries so far).
    """

    key: int
    next: int
    head: int | None


@attrs.define(eq=False)
class Journal:
    """One job's journal in a ``JournalStore``. For one thread at a time.

    Every method raises ``JournalFenced`` if another server has taken over the folder,
    ``JournalUnavailable`` if the disk is full or unavailable, and ``JournalError`` if the file
    can't be read or written.
    """

    job_id: str
    _reading: Callable[[], AbstractContextManager[sqlite3.Connection]]
    _writing: Callable[[], AbstractContextManager[tuple[sqlite3.Connection, Change]]]
    _end: _JournalEnd | None = attrs.field(init=False, default=None)
    _unsure: _JournalEnd | None = attrs.field(init=False, default=None)
    """The journal's end before the latest append, if the outcome of the append is unknown."""
    _successor: str = attrs.field(init=False, default="")
    """The job that took over this journal; empty while no job did."""

    @property
    def exists(self) -> bool:
        """Returns whether the journal has any data."""
        with self._reading() as connection:
            return _read_journal_end(connection, self.job_id) is not None

    def append_entries(self, entries: Sequence[bytes]) -> None:
        """Commits all ``entries`` or none; returns when the entries are durable.

        Costs a write of about the entries' size, and an fsync if the store is durable. After
        ``JournalUnavailable``, a retry with the same entries stores them once.
        """
        self._check_ownership()
        before = self._unsure
        known, self._end = (
            self._end,
            None,
        )  # After a failure, the end of the journal is unknown until it is read from the file.
        with self._writing() as (connection, change):
            end = known or self._create_journal(connection)
            self._unsure = before or end
            if before is None or end == before:
                rows, after = _build_entry_rows(self.job_id, end, entries)
                connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
                end = _store_journal_end(connection, change, end, after)
            elif end != _build_entry_rows(self.job_id, before, entries)[1]:
                raise JournalError(
                    f"the last commit of job {self.job_id} failed, and other entries"
                    " follow it: recover the job"
                )
        self._end, self._unsure = end, None

    def store_snapshot(self, state: bytes) -> None:
        """Replaces the snapshot and all entries by a new snapshot ``state``, in one transaction."""
        self._check_ownership()
        known, self._end = self._end, None
        with self._writing() as (connection, change):
            end = self._write_snapshot(connection, change, known, state)
        self._end, self._unsure = end, None

    def replace_by_successor(self, successor: Journal, state: bytes) -> None:
        """Begins the journal of a job that replaces this job, and removes this journal, in one
        transaction.

        The new journal begins with the snapshot ``state``. The folder's owner stays the job that
        began the lineage. After ``JournalUnavailable``, a retry with the same arguments succeeds
        once. After success, this journal raises ``JournalFenced`` for each write.
        """
        with self._writing() as (connection, change):
            # An earlier call with the same arguments may have created the journal of the successor.
            if read_successor(connection, self.job_id) != successor.job_id:
                add_successor(connection, self.job_id, successor.job_id)
                _remove_journal_rows(connection, self.job_id, change)
                successor._write_snapshot(connection, change, None, state)
        self._end, self._unsure, self._successor = None, None, successor.job_id

    def _check_ownership(self) -> None:
        if self._successor:
            raise JournalFenced(
                f"job {self._successor} has taken over the journal of job {self.job_id}"
            )

    def _write_snapshot(
        self,
        connection: sqlite3.Connection,
        change: Change,
        known: _JournalEnd | None,
        state: bytes,
    ) -> _JournalEnd:
        end = known or self._create_journal(connection)
        head = _compute_chain_checksum(
            _compute_chain_seed(self.job_id), b"snapshot", end.next, state
        )
        connection.execute(
            "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)",
            (end.key, end.next, head, state),
        )
        connection.execute(
            "DELETE FROM entries WHERE place BETWEEN ? AND ?", _compute_key_range(end.key)
        )
        return _store_journal_end(connection, change, end, attrs.evolve(end, head=head))

    def read_committed_data(self) -> RecoveredJournal:
        """Reads the snapshot and all later entries into memory, and verifies their checksums.

        Raises:
            JournalDamaged: The data differs from the written data.
        """
        with self._reading() as connection:
            end = _read_journal_end(connection, self.job_id)
            if end is None:
                return RecoveredJournal(None, ())
            state, number, head = _read_snapshot(connection, self.job_id, end.key)
            entries = tuple(_read_entries(connection, end, number, head))
            return RecoveredJournal(state, entries, number)

    def mark_job_finished(self, now: int) -> None:
        """Records that the job has ended and that the server retains the job's journal, at `now`
        (seconds since 1970).
        """
        with self._writing() as (connection, _):
            connection.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (self.job_id, now))

    def delete_journal(self) -> None:
        """Removes the journal, if it exists."""
        with self._writing() as (connection, change):
            remove_journal(connection, self.job_id, change)
        self._end = self._unsure = None

    def _create_journal(self, connection: sqlite3.Connection) -> _JournalEnd:
        """Returns the end of the journal, after creating the key of a new journal."""
        end = self._end or _read_journal_end(connection, self.job_id)
        if end is not None:
            return end
        made = connection.execute("INSERT INTO journals (job_id) VALUES (?)", (self.job_id,))
        assert made.lastrowid is not None
        return _JournalEnd(made.lastrowid, 0, None)


def _build_entry_rows(
    job_id: str, end: _JournalEnd, entries: Sequence[bytes]
) -> tuple[list[tuple[int, int, bytes]], _JournalEnd]:
    """Returns the database rows of new entries, and the end of the journal after these entries."""
    head = _compute_chain_seed(job_id) if end.head is None else end.head
    rows = []
    for number, entry in enumerate(entries, end.next):
        head = _compute_chain_checksum(head, b"entry", number, entry)
        rows.append((end.key * _PLACES + number, head, entry))
    return rows, _JournalEnd(end.key, end.next + len(rows), head)


def list_journal_checksums(connection: sqlite3.Connection) -> list[int]:
    """Returns the heads of all journals: checksums that cover all data of each journal."""
    return [head for (head,) in connection.execute("SELECT head FROM journals")]


def verify_journal(connection: sqlite3.Connection, job_id: str) -> None:
    """Reads and checks the journal of ``job_id``.

    Raises:
        JournalDamaged: the data differs from the written data.
    """
    end = _read_journal_end(connection, job_id)
    if end is not None:
        _, number, head = _read_snapshot(connection, job_id, end.key)
        for _ in _read_entries(connection, end, number, head):
            pass


def remove_journal(
    connection: sqlite3.Connection, job_id: str, change: Change | None = None
) -> None:
    """Removes the journal and lineage of ``job_id`` within the current transaction, and updates the
    database's seal (its stored checksum).
    """
    remove_lineage(connection, job_id)
    _remove_journal_rows(connection, job_id, change)


def _remove_journal_rows(
    connection: sqlite3.Connection, job_id: str, change: Change | None
) -> None:
    connection.execute("DELETE FROM kept WHERE job_id = ?", (job_id,))
    end = _read_journal_end(connection, job_id)
    if end is not None:
        connection.execute(
            "DELETE FROM entries WHERE place BETWEEN ? AND ?", _compute_key_range(end.key)
        )
        connection.execute("DELETE FROM snapshots WHERE journal = ?", (end.key,))
        connection.execute("DELETE FROM journals WHERE journal = ?", (end.key,))
        if change is not None:
            change(end.head, None)


def remove_orphaned_data(connection: sqlite3.Connection) -> None:
    """Removes entries and snapshots without a journal, within the current transaction."""
    known = "(SELECT journal FROM journals)"
    connection.execute(f"DELETE FROM snapshots WHERE journal NOT IN {known}")
    connection.execute(f"DELETE FROM entries WHERE place / {_PLACES} NOT IN {known}")


def _store_journal_end(
    connection: sqlite3.Connection, change: Change, before: _JournalEnd, after: _JournalEnd
) -> _JournalEnd:
    """Stores the new end of the journal in the database: the number of the next entry, and the head."""
    connection.execute(
        "UPDATE journals SET next = ?, head = ? WHERE journal = ?",
        (after.next, after.head, after.key),
    )
    change(before.head, after.head)
    return after


def _read_journal_end(connection: sqlite3.Connection, job_id: str) -> _JournalEnd | None:
    row = connection.execute(
        "SELECT journal, next, head FROM journals WHERE job_id = ?", (job_id,)
    ).fetchone()
    return None if row is None else _JournalEnd(*row)


def _read_snapshot(
    connection: sqlite3.Connection, job_id: str, key: int
) -> tuple[bytes | None, int, int]:
    """Returns the snapshot (None without one), the number of entries that the snapshot replaces, and the checksum after these entries."""
    row = connection.execute(
        "SELECT entries, checksum, state FROM snapshots WHERE journal = ?", (key,)
    ).fetchone()
    if row is None:
        return None, 0, _compute_chain_seed(job_id)
    number, checksum, state = row
    if (
        not isinstance(number, int)
        or not isinstance(state, bytes)
        or checksum
        != _compute_chain_checksum(_compute_chain_seed(job_id), b"snapshot", number, state)
    ):
        raise JournalDamaged(f"the checksum of the snapshot after {number} entries doesn't match")
    return state, number, checksum


def _read_entries(
    connection: sqlite3.Connection, end: _JournalEnd, first: int, head: int
) -> Iterator[bytes]:
    found = connection.execute(
        "SELECT place, checksum, entry FROM entries WHERE place BETWEEN ? AND ? ORDER BY place",
        _compute_key_range(end.key),
    )
    number = first
    for place, checksum, entry in found:
        if place != end.key * _PLACES + number:
            raise JournalDamaged(f"entry {number} is missing")
        head = (
            _compute_chain_checksum(head, b"entry", number, entry)
            if isinstance(entry, bytes)
            else -1
        )
        if checksum != head:
            raise JournalDamaged(f"the checksum of journal entry {number} doesn't match")
        number += 1
        yield entry
    if (number, head) != (end.next, end.head):
        raise JournalDamaged(f"entry {number} of {end.next} is missing")


def _compute_key_range(key: int) -> tuple[int, int]:
    return key * _PLACES, (key + 1) * _PLACES - 1


def _compute_chain_seed(job_id: str) -> int:
    return zlib.crc32(job_id.encode(errors="replace"))


def _compute_chain_checksum(before: int, kind: bytes, number: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(b"%d/%s/%d/" % (before, kind, number)))
