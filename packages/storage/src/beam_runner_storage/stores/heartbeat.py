"""Heartbeats of the active server in the state store. The standby server waits until the heartbeats
stop.

Each heartbeat is an empty file with the next number, and replaces the previous file. The standby
server compares only names, and measures with its own clock, so clocks of machines may differ. A
takeover from a server that still runs is safe, because the log rejects further writes of that
server (`takeover`).
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Set

from beam_runner_model.threads import start_helper_thread

from beam_runner_storage.stores.ownership import StateOwnership
from beam_runner_storage.stores.ports import FileStore, StoreError
from beam_runner_storage.stores.spec import StoreSpec

BEAT_SECONDS = 1.5
"""Pause (s) between two heartbeats of a server."""
SILENCE_SECONDS = 6.0
"""Time (s) without a new heartbeat after which a standby server takes over."""
_LOOK_SECONDS = 1.0
_REQUEST_SECONDS = 5.0
_PREFIX = "servers"
_LOGGER = logging.getLogger(__name__)


def get_heartbeat_store(spec: StoreSpec) -> FileStore:
    """Returns the store of the heartbeats of the servers that share a state store.

    Raises:
        StoreError: see `StoreSpec.open_store`.
    """
    return spec.with_prefix(_PREFIX).open_store(_REQUEST_SECONDS)


class ServerHeartbeat:
    """Heartbeat of one server. A separate thread sends heartbeats while the server owns the state.

    Args:
        store: store of the heartbeats, from `get_heartbeat_store`.
        ownership: ownership of the state. A fenced server stops its heartbeats.
        interval: pause between two heartbeats in seconds.
    """

    def __init__(
        self, store: FileStore, ownership: StateOwnership, interval: float = BEAT_SECONDS
    ) -> None:
        self._store = store
        self._ownership = ownership
        self._interval = interval
        self._server = secrets.token_hex(8)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._accepted = time.monotonic()

    @property
    def is_recent(self) -> bool:
        """Whether the store accepted a heartbeat in the last `SILENCE_SECONDS`, or this server has just started."""
        return time.monotonic() - self._accepted < SILENCE_SECONDS

    def start(self) -> None:
        """Starts the heartbeats, and removes the last heartbeats of previous servers."""
        self._thread = start_helper_thread(self._send_heartbeats, "state-heartbeat")

    def stop(self) -> None:
        """Stops the heartbeats, and removes the last one, so that a standby server needn't wait; idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_REQUEST_SECONDS)

    def _send_heartbeats(self) -> None:
        outdated: Set[str] | None = None
        number = 0
        while self._ownership.failure is None and not self._stopping.is_set():
            name = f"{self._server}-{number:012}"
            try:
                if outdated is None:
                    outdated = set(self._store.list_names())
                self._store.create_file(name, b"")
                self._accepted = time.monotonic()
                self._store.delete_files(outdated)
                outdated = {name}
            except StoreError as error:
                # The log reports and retries an unavailable store, so this thread needn't warn.
                _LOGGER.debug("Can't send a heartbeat: %s", error)
                outdated = {*(outdated or ()), name}
            number += 1
            self._stopping.wait(self._interval)
        try:
            self._store.delete_files(outdated or ())
        except StoreError as error:
            _LOGGER.debug("Can't remove the last heartbeat: %s", error)


def wait_for_silence(
    store: FileStore,
    stopping: threading.Event,
    silence: float = SILENCE_SECONDS,
    look: float = _LOOK_SECONDS,
) -> bool:
    """Waits until no server sends heartbeats, and returns True; returns False after ``stopping`` is
    set.

    Without any heartbeat in the store, no server is active, and the function returns immediately.
    The time while this server can't reach the store doesn't count as silence.

    Args:
        store: store of the heartbeats, from `get_heartbeat_store`.
        stopping: event that ends the wait.
        silence: time without a new heartbeat in seconds.
        look: pause between two requests in seconds.
    """
    last: Set[str] = set()
    since = time.monotonic()
    while not stopping.is_set():
        try:
            names = set(store.list_names())
        except StoreError as error:
            _LOGGER.warning("the standby server can't see the active server: %s", error)
            last = set()
        else:
            now = time.monotonic()
            if not names or (names == last and now - since >= silence):
                return True
            if names != last:
                last, since = names, now
        stopping.wait(look)
    return False
