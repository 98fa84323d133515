"""Tests of heartbeats: a standby server waits exactly while another server sends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from beam_runner_model.threads import start_helper_thread
from faulty_store import MemoryStore
from waiting import wait_until

from beam_runner_storage.durable.logged import LogFenced
from beam_runner_storage.stores.heartbeat import ServerHeartbeat, wait_for_silence
from beam_runner_storage.stores.ownership import StateOwnership
from beam_runner_storage.stores.ports import StoreError

BEAT, LOOK, SILENCE = 0.02, 0.02, 1.0


class UnreliableStore(MemoryStore):
    """Store that a test can make unavailable."""

    is_available = True
    accepts_files = True

    def create_file(self, name: str, contents: bytes) -> bool:
        if not self.accepts_files:
            raise StoreError("the store refuses files")
        return super().create_file(name, contents)

    def list_names(self) -> Iterator[str]:
        if not self.is_available:
            raise StoreError("the store is unavailable")
        return super().list_names()


class Standby:
    """Standby server in a thread."""

    def __init__(self, store: MemoryStore) -> None:
        self.stopping = threading.Event()
        self.results: list[bool] = []
        self._store = store
        self.thread = start_helper_thread(self._wait, "standby")

    def _wait(self) -> None:
        self.results.append(wait_for_silence(self._store, self.stopping, SILENCE, LOOK))

    def result(self) -> bool:
        self.thread.join(30)
        return self.results[0]


@pytest.fixture
def store() -> UnreliableStore:
    return UnreliableStore()


def beating(store: MemoryStore, ownership: StateOwnership | None = None) -> ServerHeartbeat:
    heartbeat = ServerHeartbeat(store, ownership or StateOwnership(), BEAT)
    heartbeat.start()
    wait_until(lambda: bool(store.files))
    return heartbeat


def test_standby_server_without_any_heartbeat_takes_over_immediately(
    store: UnreliableStore,
) -> None:
    assert wait_for_silence(store, threading.Event(), silence=3600.0)


def test_standby_server_waits_while_heartbeats_arrive(store: UnreliableStore) -> None:
    heartbeat = beating(store)
    standby = Standby(store)
    time.sleep(2 * SILENCE)
    assert standby.results == []
    heartbeat.stop()
    assert standby.result()


def test_stopped_server_leaves_no_heartbeat(store: UnreliableStore) -> None:
    heartbeat = beating(store)
    heartbeat.stop()
    heartbeat.stop()
    assert not store.files


def test_standby_server_takes_over_after_heartbeats_end(store: UnreliableStore) -> None:
    store.create_file("dead-server-000000000007", b"")
    began = time.monotonic()
    assert Standby(store).result()
    assert time.monotonic() - began >= SILENCE


def test_starting_server_removes_heartbeats_of_previous_servers(store: UnreliableStore) -> None:
    store.create_file("dead-server-000000000007", b"")
    heartbeat = beating(store)
    wait_until(lambda: "dead-server-000000000007" not in store.files)
    heartbeat.stop()


def test_fenced_server_sends_no_heartbeats(store: UnreliableStore) -> None:
    ownership = StateOwnership()
    beating(store, ownership)
    ownership.record_failure(LogFenced("another server has taken over"))
    wait_until(lambda: not store.files)


def test_heartbeat_is_recent_only_while_store_accepts_files(
    store: UnreliableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beam_runner_storage.stores.heartbeat.SILENCE_SECONDS", SILENCE)
    heartbeat = beating(store)
    time.sleep(2 * SILENCE)
    assert heartbeat.is_recent
    store.accepts_files = False
    wait_until(lambda: not heartbeat.is_recent)
    store.accepts_files = True
    wait_until(lambda: heartbeat.is_recent)
    heartbeat.stop()


def test_standby_server_without_store_access_does_not_count_missing_heartbeats(
    store: UnreliableStore,
) -> None:
    store.create_file("server-000000000007", b"")
    standby = Standby(store)
    store.is_available = False
    time.sleep(2 * SILENCE)
    store.create_file("server-000000000008", b"")
    store.delete_files(["server-000000000007"])
    store.is_available = True
    time.sleep(SILENCE / 2)
    assert standby.results == []
    assert standby.result()


def test_standby_server_stops_waiting_on_request(store: UnreliableStore) -> None:
    store.create_file("server-000000000007", b"")
    standby = Standby(store)
    standby.stopping.set()
    assert not standby.result()
