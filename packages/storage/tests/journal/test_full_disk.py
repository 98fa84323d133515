"""Tests of a journal on a full or failing disk: the same entries are appended again, and stored once."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from beam_runner_storage.journal.errors import JournalError, JournalUnavailable
from beam_runner_storage.journal.journal import Journal, RecoveredJournal
from beam_runner_storage.journal.store import JournalStore


def failing(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("the disk fails")
    error.sqlite_errorcode = code
    return error


class Disk:
    """A disk whose transactions fail before the start, before the commit or after the commit, as drawn."""

    def __init__(self, store: JournalStore, draw: Callable[[], str]) -> None:
        self._writing = store.begin_write_transaction
        self._used = store._lock_connection
        self._store = store
        self._draw = draw

    @contextmanager
    def writing(self) -> Iterator[Any]:
        fails = self._draw()
        with self._used():
            if fails == "begin":
                raise failing(sqlite3.SQLITE_CANTOPEN)
        with self._writing() as pair:
            yield pair
            if fails == "commit":
                raise failing(sqlite3.SQLITE_FULL)
        with self._used():
            if fails == "answer":
                raise failing(sqlite3.SQLITE_IOERR | 4 << 8)


def journal_on(disk: Disk, store: JournalStore) -> Journal:
    return Journal("job", store.begin_read_transaction, disk.writing)


def appended(journal: Journal, entries: list[bytes]) -> int:
    """Appends entries until an append succeeds, and returns the number of failures."""
    failures = 0
    while True:
        try:
            journal.append_entries(entries)
        except JournalUnavailable:
            failures += 1
        else:
            return failures


@pytest.mark.parametrize("seed", range(20))
def test_journal_entries_retried_on_full_disk_are_stored_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with closing(JournalStore(tmp_path, durable=False)) as store:
        disk = Disk(store, lambda: chance.choice(["", "", "begin", "commit", "answer"]))
        journal = journal_on(disk, store)
        expected: list[bytes] = []
        state, failures = None, 0
        for number in range(40):
            entries = [b"%d/%d" % (number, one) for one in range(chance.randrange(1, 4))]
            failures += appended(journal, entries)
            expected += entries
            if chance.random() < 0.2:
                try:
                    journal.store_snapshot(b"state %d" % number)
                except JournalUnavailable:
                    failures += 1
                found = store.get_journal("job").read_committed_data()
                if found.snapshot != state:
                    state, expected = found.snapshot, []
        assert failures > 5
        assert store.get_journal("job").read_committed_data() == RecoveredJournal(
            state, tuple(expected)
        )
    with closing(JournalStore(tmp_path, durable=False)) as store:
        assert store.damage == ()
        assert store.get_journal("job").read_committed_data() == RecoveredJournal(
            state, tuple(expected)
        )


def test_different_journal_entries_after_append_with_unknown_outcome_are_refused(
    tmp_path: Path,
) -> None:
    with closing(JournalStore(tmp_path, durable=False)) as store:
        fails = iter(["", "answer"])
        journal = journal_on(Disk(store, lambda: next(fails, "")), store)
        journal.append_entries([b"1"])
        with pytest.raises(JournalUnavailable):
            journal.append_entries([b"2"])
        with pytest.raises(JournalError, match="recover the job"):
            journal.append_entries([b"3"])
        journal.append_entries([b"2"])
        journal.append_entries([b"3"])
        assert journal.read_committed_data().entries == (b"1", b"2", b"3")


def test_journal_database_is_unavailable_until_disk_has_space(tmp_path: Path) -> None:
    with closing(JournalStore(tmp_path, durable=False)) as store:
        journal = store.get_journal("job")
        journal.append_entries([b"first"])
        assert store._connection is not None
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        for _ in range(3):
            with pytest.raises(JournalUnavailable, match="disk is full") as full:
                journal.append_entries([b"x" * 1_000_000])
        assert full.value.away.neighbour == f"the disk of {tmp_path}"
        store._connection.execute("PRAGMA max_page_count = 1000000")
        journal.append_entries([b"x" * 1_000_000])
        assert journal.read_committed_data().entries == (b"first", b"x" * 1_000_000)


def test_closed_journal_raises_no_unavailable_error(tmp_path: Path) -> None:
    store = JournalStore(tmp_path, durable=False)
    store.close()
    with pytest.raises(JournalError) as closed:
        store.get_journal("job").append_entries([b"x"])
    assert not isinstance(closed.value, JournalUnavailable)
