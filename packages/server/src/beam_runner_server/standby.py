"""Wait of a standby server until the active server releases the state."""

from __future__ import annotations

import random
import threading
from pathlib import Path

from beam_runner_jobservices import job_file
from beam_runner_storage.durable.folders import STATE, wait_for_release
from beam_runner_storage.journal import store as journal_store
from beam_runner_storage.stores.heartbeat import (
    SILENCE_SECONDS,
    get_heartbeat_store,
    wait_for_silence,
)
from beam_runner_storage.stores.spec import StoreSpec

_SPREAD_SECONDS = 2.0
"""Maximum of a random additional wait in seconds, so that usually only one of several standby
servers tries to take over.
"""


def wait_until_state_is_free(state: StoreSpec | Path, stopping: threading.Event) -> bool:
    """Waits until no server uses the state, and returns True; returns False after ``stopping`` is set.

    If the state is in a folder, waits until the active server exits, which releases its file lock.
    If the state is in an object store, waits until the active server's heartbeats stop: the server
    has exited, is suspended, or can't reach the store.

    Raises:
        StorageError: the folder isn't usable; see `lock_folder`.
        StoreError: the store's library is missing, or its URL is malformed.
    """
    if isinstance(state, StoreSpec):
        silence = SILENCE_SECONDS + random.uniform(0, _SPREAD_SECONDS)
        return wait_for_silence(get_heartbeat_store(state), stopping, silence)
    folder = state.absolute()
    locks = (job_file.LOCK, journal_store.LOCK)
    return all(wait_for_release(folder, lock, STATE, stopping) for lock in locks)
