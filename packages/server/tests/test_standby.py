"""Tests of the wait of a standby server for the end of another server."""

from __future__ import annotations

import threading
from pathlib import Path

from beam_runner_jobservices import job_file
from beam_runner_storage.durable.folders import STATE, lock_folder
from beam_runner_storage.stores.spec import StoreSpec

from beam_runner_server.standby import wait_until_state_is_free


def test_standby_server_waits_until_the_state_folder_is_released(tmp_path: Path) -> None:
    held = lock_folder(tmp_path, job_file.LOCK, STATE)
    threading.Timer(0.3, held.close).start()
    assert wait_until_state_is_free(tmp_path, threading.Event())
    assert held.closed


def test_standby_server_with_an_empty_store_starts_immediately(tmp_path: Path) -> None:
    assert wait_until_state_is_free(StoreSpec(f"file://{tmp_path}/state"), threading.Event())


def test_standby_server_stops_waiting_on_request(tmp_path: Path) -> None:
    held = lock_folder(tmp_path, job_file.LOCK, STATE)
    stopping = threading.Event()
    threading.Timer(0.3, stopping.set).start()
    assert not wait_until_state_is_free(tmp_path, stopping)
    held.close()
