"""Tests of the journal store: acknowledged entries survive any later event."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from beam_runner_storage.durable.databases import SEAL_SUFFIX
from beam_runner_storage.errors import StorageError
from beam_runner_storage.journal.errors import JournalFenced
from beam_runner_storage.journal.journal import RecoveredJournal
from beam_runner_storage.journal.store import FILE, LOCK, JournalStore

KILLS = 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JournalStore]:
    opened = JournalStore(tmp_path, durable=False)
    yield opened
    opened.close()


def reopen(store: JournalStore, folder: Path) -> JournalStore:
    store.close()
    return JournalStore(folder, durable=False)


def edit(folder: Path, statement: str) -> None:
    """Edits a database file without a change of its seals (stored checksums), as damage of a disk
    does.
    """
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute(statement)
    connection.close()


class TestEpochs:
    def test_journal_store_starts_new_epoch_when_opened(
        self, store: JournalStore, tmp_path: Path
    ) -> None:
        assert store.epoch == 1
        for epoch in (2, 3, 4):
            store = reopen(store, tmp_path)
            assert store.epoch == epoch
        store.close()

    def test_journal_store_epoch_grows_without_database_or_lock_file(
        self, store: JournalStore, tmp_path: Path
    ) -> None:
        store = reopen(store, tmp_path)
        store.close()
        (tmp_path / FILE).write_bytes(b"no database")
        with closing(reopen(store, tmp_path)) as again:
            assert again.epoch == 3
        (tmp_path / LOCK).unlink()
        with closing(reopen(store, tmp_path)) as again:
            assert again.epoch == 4

    def test_journal_folder_in_use_is_refused(self, store: JournalStore, tmp_path: Path) -> None:
        with pytest.raises(StorageError, match=f"{tmp_path} is in use by another server"):
            JournalStore(tmp_path, durable=False)

    def test_server_whose_folder_was_taken_over_commits_no_entry(
        self, store: JournalStore, tmp_path: Path
    ) -> None:
        journal = store.get_journal("a")
        journal.append_entries([b"1"])
        (tmp_path / LOCK).unlink()
        taker = JournalStore(tmp_path, durable=False)
        assert taker.epoch == 2
        for late in (
            lambda: journal.append_entries([b"late"]),
            lambda: journal.store_snapshot(b"late"),
        ):
            with pytest.raises(
                JournalFenced, match="this server has epoch 1, and the other server has epoch 2"
            ):
                late()
        with pytest.raises(JournalFenced):
            journal.delete_journal()
        taker.get_journal("a").append_entries([b"2"])
        assert taker.get_journal("a").read_committed_data() == RecoveredJournal(None, (b"1", b"2"))
        taker.close()


class TestDamage:
    @pytest.fixture
    def written(self, store: JournalStore, tmp_path: Path) -> Path:
        for name in ("a", "b"):
            store.get_journal(name).store_snapshot(b"start")
            for number in range(50):
                store.get_journal(name).append_entries([b"%d" % number * 500])
        store.close()
        return tmp_path

    @pytest.mark.parametrize("content", [b"", b"no database at all" * 100])
    def test_invalid_journal_database_is_moved_aside(self, written: Path, content: bytes) -> None:
        (written / FILE).write_bytes(content)
        store = JournalStore(written, durable=False)
        (sentence,) = store.damage
        kept = written / f"{FILE}.damaged-1"
        assert str(kept) in sentence
        assert "can't be resumed" in sentence
        assert kept.read_bytes() == content
        assert store.list_job_ids() == ()
        store.get_journal("a").append_entries([b"1"])
        with closing(reopen(store, written)) as again:
            assert again.damage == ()
            assert again.get_journal("a").read_committed_data().entries == (b"1",)

    def test_overwritten_journal_page_is_detected(self, written: Path) -> None:
        content = bytearray((written / FILE).read_bytes())
        assert len(content) > 8 * 4096
        for page in range(2, len(content) // 4096):
            content[page * 4096 : page * 4096 + 64] = os.urandom(64)
        (written / FILE).write_bytes(content)
        store = JournalStore(written, durable=False)
        assert len(store.damage) == 1
        assert (written / f"{FILE}.damaged-1").read_bytes() == bytes(content)
        store.close()

    @pytest.mark.parametrize(
        "change",
        [
            "UPDATE entries SET entry = zeroblob(3) WHERE place % 1099511627776 = 7 AND place < 2e12",
            "UPDATE entries SET entry = 'text' WHERE place % 1099511627776 = 7 AND place < 2e12",
            "DELETE FROM entries WHERE place % 1099511627776 = 7 AND place < 2e12",
            "UPDATE snapshots SET state = x'00' WHERE journal = 1",
            "UPDATE snapshots SET entries = 9 WHERE journal = 1",
            "DELETE FROM entries WHERE place % 1099511627776 >= 30 AND place < 2e12",
            "DELETE FROM snapshots WHERE journal = 1",
        ],
    )
    def test_damaged_journal_loses_only_its_job(self, written: Path, change: str) -> None:
        edit(written, change)
        store = JournalStore(written, durable=False)
        (sentence,) = store.damage
        assert "job a " in sentence
        assert store.list_job_ids() == ("b",)
        assert not store.get_journal("a").exists
        assert len(store.get_journal("b").read_committed_data().entries) == 50
        store.close()
        with sqlite3.connect(written / f"{FILE}.damaged-1") as kept:
            assert kept.execute("SELECT count(*) FROM journals").fetchone() == (2,)
        kept.close()

    def test_second_damaged_journal_database_does_not_replace_first_copy(
        self, written: Path
    ) -> None:
        for number in (1, 2):
            (written / FILE).write_bytes(b"no database %d" % number)
            JournalStore(written, durable=False).close()
            kept = written / f"{FILE}.damaged-{number}"
            assert kept.read_bytes() == b"no database %d" % number

    def test_missing_journal_database_is_reported(self, written: Path) -> None:
        (written / FILE).unlink()
        store = JournalStore(written, durable=False)
        assert f"is missing, but {FILE}{SEAL_SUFFIX}" in store.damage[0]
        store.close()

    def test_missing_journal_database_without_its_checksum_file_is_reported(
        self, written: Path
    ) -> None:
        (written / FILE).unlink()
        (written / f"{FILE}{SEAL_SUFFIX}").unlink()
        store = JournalStore(written, durable=False)
        assert "is missing, although a server has used this folder before" in store.damage[0]
        store.close()

    def test_write_ahead_log_without_its_journal_database_is_not_replayed(
        self, tmp_path: Path
    ) -> None:
        JournalStore(tmp_path, durable=False).close()
        (tmp_path / FILE).unlink()
        (tmp_path / f"{FILE}-wal").write_bytes(b"of another life")
        store = JournalStore(tmp_path, durable=False)
        assert len(store.damage) == 1
        assert (tmp_path / f"{FILE}.damaged-1-wal").read_bytes() == b"of another life"
        store.close()

    def test_journal_store_with_one_missing_journal_uses_no_journal(self, written: Path) -> None:
        edit(written, "DELETE FROM journals WHERE journal = 1")
        store = JournalStore(written, durable=False)
        assert "the database has 1 jobs; expected 2" in store.damage[0]
        assert "job b " in store.damage[1]
        assert store.list_job_ids() == ()
        store = reopen(store, written)
        assert store.damage == ()
        store.close()

    def test_older_copy_of_journal_database_is_detected(self, written: Path) -> None:
        old = (written / FILE).read_bytes()
        store = JournalStore(written, durable=False)
        store.get_journal("a").append_entries([b"more"])
        store.close()
        (written / FILE).write_bytes(old)
        store = JournalStore(written, durable=False)
        assert "the last 1 changes are missing" in store.damage[0]
        assert ["job a " in store.damage[1], "job b " in store.damage[2]] == [True, True]
        assert store.list_job_ids() == ()
        store = reopen(store, written)
        assert store.damage == ()
        store.close()

    def test_missing_journal_checksum_file_is_reported_and_jobs_continue(
        self, written: Path
    ) -> None:
        (written / f"{FILE}{SEAL_SUFFIX}").unlink()
        store = JournalStore(written, durable=False)
        assert "the seal file is missing" in store.damage[0]
        assert store.list_job_ids() == ("a", "b")
        store = reopen(store, written)
        assert store.damage == ()
        assert len(store.get_journal("a").read_committed_data().entries) == 50
        store.close()

    def test_journal_store_of_newer_version_is_refused_and_unchanged(self, written: Path) -> None:
        edit(written, "PRAGMA user_version = 99")
        before = (written / FILE).read_bytes()
        with pytest.raises(StorageError, match="another version"):
            JournalStore(written, durable=False)
        assert (written / FILE).read_bytes() == before


@pytest.mark.timeout(120)
def test_acknowledged_journal_entries_survive_kills_with_at_most_one_additional_entry(
    tmp_path: Path,
) -> None:
    rng = random.Random(5)
    script = Path(__file__).with_name("writer_to_kill.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    acknowledged, epochs = tmp_path / "acknowledged", 0
    for _ in range(KILLS):
        size = acknowledged.stat().st_size if acknowledged.exists() else 0
        process.stdin.write("go\n")
        process.stdin.flush()
        pid = int(process.stdout.readline())
        while not acknowledged.exists() or acknowledged.stat().st_size <= size:
            time.sleep(0.001)
        time.sleep(rng.random() * 0.05)
        os.kill(pid, signal.SIGKILL)
        assert process.stdout.readline() == "ended\n"
        store = JournalStore(tmp_path, durable=False)
        assert store.damage == ()
        assert store.epoch == epochs + 2
        epochs = store.epoch
        recovered = store.get_journal("job").read_committed_data()
        store.close()
        start = int(recovered.snapshot or b"0")
        there = start + len(recovered.entries)
        assert recovered.entries == tuple(b"%d" % number for number in range(start, there))
        last = int(acknowledged.read_text().split()[-1])
        assert there in (last, last + 3)
    process.stdin.close()
    assert process.wait(20) == 0
    assert last > 3 * KILLS
