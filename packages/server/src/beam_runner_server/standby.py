"""Wait of a standby server until no other server uses its state."""

from __future__ import annotations

import random
import threading
from pathlib import Path

from beam_runner_jobservices import job_file
from beam_runner_storage.durable.folders import STATE, wait_for_release
from beam_runner_storage.journal import store as journal_store
from beam_runner_storage.stores.heartbeat import (
    SILENCE_SECONDS,
    heartbeat_store,
    wait_for_silence,
)
from beam_runner_storage.stores.spec import StoreSpec

_SPREAD_SECONDS = 2.0
"""Upper limit in seconds of a random addition to the wait, so that usually only one of several standby
servers takes over.
"""


def wait_until_needed(state: StoreSpec | Path, stopping: threading.Event) -> bool:
    """Waits until no server uses the state, and returns True; returns False after ``stopping`` is set.

    For a folder, waits until the other process ends, because the operating system releases its
    lock. For a store, waits until the heartbeats of the other server stop, because that server has
    ended, stands still, or can't reach the store.

    Raises:
        StorageError: the folder isn't usable; see `lock_folder`.
        StoreError: the store's library is missing, or its URL is malformed.
    """
    if isinstance(state, StoreSpec):
        silence = SILENCE_SECONDS + random.uniform(0, _SPREAD_SECONDS)
        return wait_for_silence(heartbeat_store(state), stopping, silence)
    folder = state.absolute()
    locks = (job_file.LOCK, journal_store.LOCK)
    return all(wait_for_release(folder, lock, STATE, stopping) for lock in locks)
