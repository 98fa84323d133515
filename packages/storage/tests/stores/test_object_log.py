"""Tests of logs in a store: the next server gets acknowledged entries once and in order after any
failure.

Only one server can write.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from beam_runner_model.threads import start_helper_thread
from faulty_store import FaultyLine, MemoryStore
from waiting import wait_until

from beam_runner_storage.durable.logged import LogFailed, LogFenced, LogUnavailable, Transaction
from beam_runner_storage.stores import object_log
from beam_runner_storage.stores.log_entries import LogPosition, LogSnapshot, get_claim_name
from beam_runner_storage.stores.object_log import ObjectLog
from beam_runner_storage.stores.ownership import StateOwnership
from beam_runner_storage.stores.ports import FileStore, StoreError

ROUNDS = 30
NEVER = 3600.0
SECONDS = 60.0


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_log, "_AGAIN_SECONDS", 0.001)


@pytest.fixture
def shared() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def open_server(shared: MemoryStore, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    opened: list[Server] = []
    numbers = itertools.count()

    def opening(line: FileStore | None = None, **settings: Any) -> Server:
        made = Server(
            line or shared, tmp_path / f"server-{next(numbers)}", **{"look": NEVER} | settings
        )
        opened.append(made)
        return made

    yield opening
    for server in opened:
        server.log.close()


def transaction(text: str) -> Transaction:
    return (("INSERT INTO t VALUES (?)", False, (text,)),)


@attrs.define(eq=False, init=False)
class Server:
    """A log and a database, which is a list of texts in a file."""

    log: ObjectLog
    path: Path
    texts: list[str]

    def __init__(self, store: FileStore, path: Path, **settings: Any) -> None:
        self.log = ObjectLog(store, StateOwnership(), "memory", **settings)
        self.path = path
        after = self.log.take_over_log(path)
        self.texts = path.read_text().split() if path.exists() else []
        self.texts += [values[0] for one in after for _, _, values in one]
        self.log.start_log(self._copy())

    def add(self, *texts: str) -> None:
        for text in texts:
            self.texts.append(text)
            if self.log.add_transaction(transaction(text)):
                self.log.queue_copy_upload(self._copy())

    def commit(self, *texts: str) -> None:
        self.add(*texts)
        self.log.wait_until_durable()

    def _copy(self) -> Path:
        copy = self.path.with_suffix(".copy")
        copy.write_text(" ".join(self.texts))
        return copy


Opening = Callable[..., Server]


def entries(store: MemoryStore) -> list[LogPosition]:
    return [place for place in map(LogPosition.parse_name, store.list_names()) if place is not None]


def test_object_log_restores_all_entries_in_order_in_next_server(open_server: Opening) -> None:
    open_server().commit("a", "b")
    second = open_server()
    assert second.texts == ["a", "b"]
    second.commit("c")
    second.commit("d")
    assert open_server().texts == ["a", "b", "c", "d"]
    assert open_server().texts == ["a", "b", "c", "d"]


def test_object_log_stores_concurrent_commits_in_one_object(
    open_server: Opening, shared: MemoryStore
) -> None:
    server = open_server()
    before = len(entries(shared))
    server.commit(*"abcdefgh")
    assert len(entries(shared)) == before + 1


def test_object_log_persists_uncommitted_entries_at_shutdown(open_server: Opening) -> None:
    server = open_server()
    server.add("a", "b")
    server.log.close()
    assert open_server().texts == ["a", "b"]
    with pytest.raises(LogFailed, match="has stopped"):
        server.commit("late")


def test_object_log_persists_uncommitted_entries_after_interval(
    open_server: Opening, shared: MemoryStore
) -> None:
    server = open_server(look=0.01)
    before = len(entries(shared))
    server.add("a")
    wait_until(lambda: len(entries(shared)) > before)
    assert open_server().texts == ["a"]


class TestTwoServers:
    def test_fenced_server_commits_no_further_entry(self, open_server: Opening) -> None:
        older = open_server()
        older.commit("a")
        newer = open_server()
        with pytest.raises(LogFenced, match="another server has taken over the state in memory"):
            older.commit("late")
        newer.commit("b")
        with pytest.raises(LogFenced):
            older.commit("later")
        assert open_server().texts == ["a", "b"]

    def test_idle_fenced_server_detects_its_successor(self, open_server: Opening) -> None:
        older = open_server(look=0.01)
        open_server()
        wait_until(lambda: older.log._ownership.failure is not None)
        assert isinstance(older.log._ownership.failure, LogFenced)

    def test_server_replaced_several_times_cannot_write_to_the_log(
        self, open_server: Opening, shared: MemoryStore
    ) -> None:
        older = open_server()
        older.commit("a")
        for number in range(5):
            open_server().commit(str(number))
        with pytest.raises(LogFenced):
            older.commit("late")
        assert open_server().texts == ["a", *"01234"]
        # The store has the closing entries (seals) of six servers, and one entry of the
        # second-to-last server.
        assert len(entries(shared)) <= 9

    def test_busy_fenced_server_stops(self, open_server: Opening, shared: MemoryStore) -> None:
        older = open_server(look=0.0)
        shared.create_file(get_claim_name(1), b"of another")
        with pytest.raises(LogFenced):
            older.commit("a")

    def test_concurrently_started_servers_have_one_log_owner(
        self, open_server: Opening, shared: MemoryStore
    ) -> None:
        open_server().commit("a")
        servers: list[Server] = []

        def start() -> None:
            servers.append(open_server())

        threads = [threading.Thread(target=start) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(servers) == 8
        fenced = 0
        for number, server in enumerate(servers):
            try:
                server.commit(str(number))
            except LogFenced:
                fenced += 1
        assert fenced == 7
        assert len(open_server().texts) == 2


class TestBases:
    def test_object_log_deletes_entries_before_its_base(
        self, open_server: Opening, shared: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(object_log, "_BASE_ENTRIES", 5)
        server = open_server()
        texts = [str(number) for number in range(100)]
        for text in texts:
            server.commit(text)
            # Another thread stores the base, and a busy machine can delay that thread.
            wait_until(lambda: not server.log._keeping)
        kept = [
            base for base in map(LogSnapshot.parse_name, shared.list_names()) if base is not None
        ]
        assert max(kept).place.number > 0
        assert open_server().texts == texts
        assert len(entries(shared)) < 20

    def test_fenced_server_deletes_no_object_of_its_successor(
        self, open_server: Opening, shared: MemoryStore, tmp_path: Path
    ) -> None:
        older = open_server()
        older.commit("a")
        place, chain = older.log._place, older.log._chain
        newer = open_server()
        newer.commit("b")
        copy = tmp_path / "late"
        copy.write_text("a")
        older.log._store_snapshot(place, chain, copy)
        newer.commit("c")
        assert open_server().texts == ["a", "b", "c"]
        with pytest.raises(LogFenced):
            older.commit("late")


class TestDamage:
    @pytest.fixture
    def written(self, open_server: Opening, shared: MemoryStore) -> MemoryStore:
        server = open_server()
        for text in "abcdefgh":
            server.commit(text)
        server.log.close()
        return shared

    def refused(self, written: MemoryStore, open_server: Opening, reason: str) -> None:
        before = dict(written.files)
        with pytest.raises(LogFailed, match=f"Can't take over the state in memory: {reason}"):
            open_server()
        assert written.files == before

    def test_missing_log_entry_is_reported(
        self, written: MemoryStore, open_server: Opening
    ) -> None:
        del written.files[LogPosition(1, 3).object_name]
        self.refused(written, open_server, "the stored log lacks entries/00000001/000000000003")

    def test_changed_log_entry_is_reported(
        self, written: MemoryStore, open_server: Opening
    ) -> None:
        name = LogPosition(1, 3).object_name
        written.files[name] = written.files[name].replace(b"d", b"D", 1)
        self.refused(written, open_server, f"{name} is damaged")

    def test_log_entry_replaced_by_another_entry_is_reported(
        self, written: MemoryStore, open_server: Opening
    ) -> None:
        written.files[LogPosition(1, 3).object_name] = written.files[LogPosition(1, 2).object_name]
        self.refused(written, open_server, f"{LogPosition(1, 3).object_name} doesn't follow")

    def test_changed_log_base_is_reported(self, written: MemoryStore, open_server: Opening) -> None:
        (name,) = (name for name in written.files if LogSnapshot.parse_name(name))
        written.files[name] += b" x"
        self.refused(written, open_server, f"{name} is damaged")


class TestAStoreThatFails:
    def test_log_commit_during_store_outage_waits_until_store_is_available(
        self, open_server: Opening, caplog: pytest.LogCaptureFixture
    ) -> None:
        line = FaultyLine(MemoryStore(), random.Random(1), 0.0)
        server = open_server(line)
        line.share = 1.0
        committing = start_helper_thread(lambda: server.commit("a"), "commit")
        wait_until(lambda: "jobs wait until the store accepts their commits" in caplog.text)
        committing.join(0.2)
        assert committing.is_alive()
        line.share = 0.0
        committing.join(SECONDS)
        assert not committing.is_alive()
        assert "the state store at memory accepts commits again" in caplog.text
        assert open_server(line.store).texts == ["a"]

    @pytest.mark.parametrize("answers", [True, False])
    def test_log_commit_with_time_limit_during_store_outage_raises_and_can_be_repeated(
        self, open_server: Opening, monkeypatch: pytest.MonkeyPatch, answers: bool
    ) -> None:
        store, back = MemoryStore(), threading.Event()
        server = open_server(store)
        create = MemoryStore.create_file

        def away(store: MemoryStore, name: str, contents: bytes) -> bool:
            if not back.is_set():
                if answers:
                    raise StoreError("connection refused")
                assert back.wait(SECONDS)
            return create(store, name, contents)

        monkeypatch.setattr(MemoryStore, "create_file", away)
        server.add("a")
        with pytest.raises(LogUnavailable) as raised:
            server.log.wait_until_durable(0.1)
        assert raised.value.place == "the state store at memory"
        reason = "connection refused" if answers else "no response for 0 s"
        assert raised.value.reason == reason
        back.set()
        server.log.wait_until_durable(SECONDS)
        assert open_server(store).texts == ["a"]

    def test_log_commit_fails_if_server_stops_during_store_outage(
        self, open_server: Opening
    ) -> None:
        line = FaultyLine(MemoryStore(), random.Random(1), 0.0)
        server = open_server(line)
        line.share = 1.0
        server.log.limit_wait_times(0.05)
        with pytest.raises(LogFailed, match="connection reset by peer|has not responded"):
            server.commit("a")
        line.share = 0.0
        with pytest.raises(LogFailed):
            server.commit("b")

    def test_log_commit_fails_if_server_stops_while_store_does_not_respond(
        self, open_server: Opening, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store, never = MemoryStore(), threading.Event()
        server = open_server(store)
        monkeypatch.setattr(MemoryStore, "create_file", lambda *_: never.wait(SECONDS))
        server.log.limit_wait_times(0.05)
        with pytest.raises(
            LogFailed, match="the server is shutting down, and the state store at memory has"
        ):
            server.commit("a")
        never.set()

    def test_log_commit_fails_if_writer_thread_raises_error(
        self, open_server: Opening, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> bool:
            raise SystemExit(0)

        server = open_server(MemoryStore())
        monkeypatch.setattr(MemoryStore, "create_file", broken)
        with pytest.raises(LogFailed, match="the log in memory failed"):
            server.commit("a")

    @pytest.mark.parametrize("seed", range(ROUNDS))
    def test_acknowledged_log_entries_are_stored_once_and_in_order(
        self,
        open_server: Opening,
        shared: MemoryStore,
        monkeypatch: pytest.MonkeyPatch,
        seed: int,
    ) -> None:
        monkeypatch.setattr(object_log, "_BASE_ENTRIES", 4)
        choose = random.Random(seed)
        acknowledged: list[str] = []
        asked: list[str] = []
        servers: list[Server] = []
        for number in range(60):
            if not servers or choose.random() < 0.15:
                line = FaultyLine(shared, random.Random(choose.random()), 0.1)
                try:
                    servers.append(open_server(line))
                    servers[-1].log.limit_wait_times(0.02)
                except (LogFailed, StoreError):
                    continue
            server = choose.choice(servers)
            texts = [f"{number}-{i}" for i in range(choose.randint(1, 3))]
            asked += texts
            try:
                server.commit(*texts)
                acknowledged += texts
            except LogFailed:
                servers.remove(server)
        assert len(acknowledged) > 20
        found = open_server().texts
        assert len(set(found)) == len(found)
        assert [text for text in found if text in set(acknowledged)] == acknowledged
        assert set(found) <= set(asked)
