"""Tests of journals that a successor takes over."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_runner_storage.journal.errors import JournalFenced
from beam_runner_storage.journal.journal import RecoveredJournal
from beam_runner_storage.journal.lineages import Lineage
from beam_runner_storage.journal.store import FILE, JournalStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JournalStore]:
    opened = JournalStore(tmp_path, durable=False)
    yield opened
    opened.close()


def begin(store: JournalStore, job: str) -> None:
    store.get_journal(job).store_snapshot(b"state of " + job.encode())
    store.get_journal(job).append_entries([b"one", b"two"])


def replace(store: JournalStore, job: str, successor: str) -> None:
    store.get_journal(job).replace_by_successor(store.get_journal(successor), b"state of successor")


def test_successor_job_starts_with_snapshot_and_predecessor_has_no_journal(
    store: JournalStore, tmp_path: Path
) -> None:
    begin(store, "first")
    replace(store, "first", "second")
    store.close()
    for _ in range(2):
        each = JournalStore(tmp_path, durable=False)
        assert each.list_job_ids() == ("second",)
        assert not each.get_journal("first").exists
        read = each.get_journal("second").read_committed_data()
        assert read == RecoveredJournal(b"state of successor", ())
        assert each.find_successor("first") == "second"
        assert each.find_successor("second") == ""
        assert not each.damage
        each.close()


def test_successor_jobs_keep_the_owner_of_the_first_job(store: JournalStore) -> None:
    begin(store, "a")
    assert store.find_lineage("a") == Lineage("a")
    replace(store, "a", "b")
    replace(store, "b", "c")
    assert store.find_lineage("b") == Lineage("a", 1, "a")
    assert store.find_lineage("c") == Lineage("a", 2, "b")


def test_predecessor_job_commits_no_entry_after_its_successor_started(store: JournalStore) -> None:
    begin(store, "a")
    replace(store, "a", "b")
    old = store.get_journal("a")
    with pytest.raises(JournalFenced, match="b"):
        old.append_entries([b"late"])
    with pytest.raises(JournalFenced, match="b"):
        old.store_snapshot(b"late")
    assert store.list_job_ids() == ("b",)


def test_end_of_successor_job_removes_records_of_its_predecessors(store: JournalStore) -> None:
    begin(store, "a")
    replace(store, "a", "b")
    store.get_journal("b").delete_journal()
    assert store.find_lineage("b") == Lineage("b")
    assert store.find_successor("a") == ""


def test_repeated_start_of_successor_job_has_no_effect(store: JournalStore) -> None:
    begin(store, "a")
    replace(store, "a", "b")
    store.get_journal("b").append_entries([b"committed"])
    replace(store, "a", "b")
    assert store.get_journal("b").read_committed_data().entries == (b"committed",)


def test_failed_start_of_successor_job_leaves_predecessor_unchanged(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(store, "a")

    def write_nothing(*arguments: object) -> None:
        raise sqlite3.OperationalError("no space")

    with monkeypatch.context() as patch:
        patch.setattr("beam_runner_storage.journal.journal._remove_journal_rows", write_nothing)
        with pytest.raises(Exception, match="no space"):
            replace(store, "a", "b")
    assert store.list_job_ids() == ("a",)
    store.get_journal("a").append_entries([b"three"])
    assert store.get_journal("a").read_committed_data().entries == (b"one", b"two", b"three")
    replace(store, "a", "b")
    assert store.list_job_ids() == ("b",)


def test_journal_database_of_older_version_has_no_predecessors(
    store: JournalStore, tmp_path: Path
) -> None:
    begin(store, "a")
    store.close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("DROP TABLE lineages")
    connection.close()
    again = JournalStore(tmp_path, durable=False)
    assert again.find_lineage("a") == Lineage("a")
    again.close()
