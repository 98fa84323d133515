"""Tests of the journal of a job in a folder, in a store, and in a store that fails at random."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from faulty_store import FaultyLine, MemoryStore

from beam_runner_storage.journal import store as store_module
from beam_runner_storage.journal.errors import JournalError, JournalFenced, JournalUnavailable
from beam_runner_storage.journal.journal import RecoveredJournal
from beam_runner_storage.journal.store import JournalStore
from beam_runner_storage.stores import object_log
from beam_runner_storage.stores.object_log import ObjectLog
from beam_runner_storage.stores.ownership import StateOwnership

NOTHING = RecoveredJournal(None, ())
Opening = Callable[[], JournalStore]


@pytest.fixture(params=["folder", "store", "store that fails"])
def next_server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Opening]:
    """Opens the journals as the next server does; in another folder if the journals are in a
    store.
    """
    monkeypatch.setattr(object_log, "_AGAIN_SECONDS", 0.001)
    shared = MemoryStore()
    share = 0.1 if request.param == "store that fails" else 0.0
    numbers = itertools.count()
    logs: list[ObjectLog] = []
    opened: list[JournalStore] = []

    def in_folder() -> JournalStore:
        for one in opened:
            one.close()
        opened.append(JournalStore(tmp_path, durable=False))
        return opened[-1]

    def in_store() -> JournalStore:
        number = next(numbers)
        line = FaultyLine(shared, random.Random(number), 0.0)
        logs.append(ObjectLog(line, StateOwnership(), "memory"))
        opened.append(JournalStore(tmp_path / str(number), durable=True, log=logs[-1]))
        line.share = share
        return opened[-1]

    yield in_folder if request.param == "folder" else in_store
    for one in (*opened, *logs):
        one.close()


@pytest.fixture
def store(next_server: Opening) -> JournalStore:
    return next_server()


def test_journal_exists_from_first_append_until_delete(store: JournalStore) -> None:
    journal = store.get_journal("a")
    assert not journal.exists
    assert journal.read_committed_data() == NOTHING
    assert store.list_job_ids() == ()
    journal.append_entries([b"one", b""])
    journal.append_entries([b"three"])
    assert journal.exists
    assert journal.read_committed_data() == RecoveredJournal(None, (b"one", b"", b"three"))
    journal.delete_journal()
    journal.delete_journal()
    assert not journal.exists
    assert journal.read_committed_data() == NOTHING
    journal.append_entries([b"anew"])
    assert journal.read_committed_data() == RecoveredJournal(None, (b"anew",))


def test_snapshot_replaces_earlier_entries(store: JournalStore, next_server: Opening) -> None:
    journal = store.get_journal("a")
    journal.append_entries([b"1", b"2"])
    journal.store_snapshot(b"1+2")
    assert journal.read_committed_data() == RecoveredJournal(b"1+2", ())
    with closing(next_server()) as again:
        journal = again.get_journal("a")
        journal.append_entries([b"3"])
        journal.append_entries([b"4"])
        assert journal.read_committed_data() == RecoveredJournal(b"1+2", (b"3", b"4"))
        journal.store_snapshot(b"all")
        journal.store_snapshot(b"ALL")
        assert journal.read_committed_data() == RecoveredJournal(b"ALL", ())


def test_journals_of_different_jobs_are_separate(store: JournalStore, next_server: Opening) -> None:
    names = ["a", "b", "../c", "d'; --"]
    for number in range(3):
        for name in names:
            store.get_journal(name).append_entries([f"{name}{number}".encode()])
    store.get_journal("b").delete_journal()
    with closing(next_server()) as again:
        assert again.list_job_ids() == ("a", "../c", "d'; --")
        for name in again.list_job_ids():
            expected = tuple(f"{name}{number}".encode() for number in range(3))
            assert again.get_journal(name).read_committed_data() == RecoveredJournal(None, expected)
        assert again.damage == ()


def test_journals_accept_concurrent_appends_of_many_jobs(store: JournalStore) -> None:
    def write(name: str) -> None:
        for number in range(100):
            store.get_journal(name).append_entries([b"%d" % number])

    threads = [threading.Thread(target=write, args=(f"job{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number in range(8):
        recovered = store.get_journal(f"job{number}").read_committed_data()
        assert recovered.entries == tuple(b"%d" % number for number in range(100))


def test_failed_journal_append_leaves_no_entry(store: JournalStore) -> None:
    journal = store.get_journal("a")
    journal.append_entries([b"1"])
    with pytest.raises(TypeError):
        journal.append_entries([b"2", None])  # type: ignore[list-item]
    with store.begin_write_transaction() as (connection, _):
        connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(JournalError, match="is unavailable: database or disk is full"):
        journal.append_entries([b"2", bytes(1_000_000)])
    journal.append_entries([b"3"])
    assert journal.read_committed_data().entries == (b"1", b"3")


def test_closed_journal_store_raises_clear_error(store: JournalStore) -> None:
    journal = store.get_journal("a")
    store.close()
    store.close()
    for use in (
        lambda: journal.append_entries([b"1"]),
        journal.read_committed_data,
        store.list_job_ids,
    ):
        with pytest.raises(JournalError, match="is closed"):
            use()


def test_server_with_older_epoch_commits_no_journal_entry(
    store: JournalStore, next_server: Opening, request: pytest.FixtureRequest
) -> None:
    journal = store.get_journal("a")
    journal.append_entries([b"1"])
    newer = next_server()
    assert newer.epoch > store.epoch
    for late in (
        lambda: journal.append_entries([b"late"]),
        lambda: journal.store_snapshot(b"late"),
        journal.delete_journal,
    ):
        # In a folder, the previous server has closed it.
        with pytest.raises(JournalError if "[folder" in request.node.name else JournalFenced):
            late()
    newer.get_journal("a").append_entries([b"2"])
    assert next_server().get_journal("a").read_committed_data() == RecoveredJournal(
        None, (b"1", b"2")
    )


def test_next_server_finds_journal_of_successor(next_server: Opening) -> None:
    store = next_server()
    store.get_journal("a").append_entries([b"one"])
    store.get_journal("a").replace_by_successor(store.get_journal("b"), b"taken over")
    store.get_journal("b").append_entries([b"two"])
    following = next_server()
    assert following.list_job_ids() == ("b",)
    assert following.find_successor("a") == "b"
    read = following.get_journal("b").read_committed_data()
    assert read == RecoveredJournal(b"taken over", (b"two",))


def test_journal_of_successor_repeated_after_log_outage_is_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_log, "_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(store_module, "_LOG_SECONDS", 0.05)
    shared = MemoryStore()
    line = FaultyLine(shared, random.Random(1), 0.0)
    log = ObjectLog(line, StateOwnership(), "memory")
    with closing(log), closing(JournalStore(tmp_path / "first", durable=True, log=log)) as store:
        old, new = store.get_journal("a"), store.get_journal("b")
        old.append_entries([b"1"])
        line.share = 1.0
        for _ in range(2):
            with pytest.raises(JournalUnavailable):
                old.replace_by_successor(new, b"taken over")
        line.share = 0.0
        monkeypatch.setattr(store_module, "_LOG_SECONDS", 60.0)
        old.replace_by_successor(new, b"taken over")
        new.append_entries([b"2"])
    log = ObjectLog(shared, StateOwnership(), "memory")
    with closing(log), closing(JournalStore(tmp_path / "second", durable=True, log=log)) as store:
        assert store.list_job_ids() == ("b",)
        assert store.get_journal("b").read_committed_data().entries == (b"2",)


def test_journal_append_repeated_after_log_outage_is_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_log, "_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(store_module, "_LOG_SECONDS", 0.05)
    shared = MemoryStore()
    line = FaultyLine(shared, random.Random(1), 0.0)
    log = ObjectLog(line, StateOwnership(), "memory")
    with closing(log), closing(JournalStore(tmp_path / "first", durable=True, log=log)) as store:
        journal = store.get_journal("a")
        journal.append_entries([b"1"])
        line.share = 1.0
        for _ in range(3):
            with pytest.raises(JournalUnavailable) as raised:
                journal.append_entries([b"2", b"3"])
        assert raised.value.away.neighbour == "the state store at memory"
        line.share = 0.0
        monkeypatch.setattr(store_module, "_LOG_SECONDS", 60.0)
        journal.append_entries([b"2", b"3"])
        journal.append_entries([b"4"])
    log = ObjectLog(shared, StateOwnership(), "memory")
    with closing(log), closing(JournalStore(tmp_path / "second", durable=True, log=log)) as store:
        assert store.get_journal("a").read_committed_data().entries == (b"1", b"2", b"3", b"4")
