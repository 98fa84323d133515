"""Ownership of the server state in a store: whether this server may still write to the state."""

from __future__ import annotations

import secrets
import threading

from beam_runner_storage.durable.logged import LogFailed


class StateOwnership:
    """Ownership of the server state, shared by all logs of a server; thread-safe.

    After one log fails, none of them continues.

    Attributes:
        writer: ID that distinguishes the objects of this server from the objects of other servers.
    """

    def __init__(self) -> None:
        self.writer = secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._failure: LogFailed | None = None

    @property
    def failure(self) -> LogFailed | None:
        """Reason why this server no longer writes; None if the server still writes."""
        return self._failure

    def record_failure(self, failure: LogFailed) -> None:
        """Stops all further writes of this server, and retains the reason unless an earlier reason exists."""
        with self._lock:
            self._failure = self._failure or failure

    def check_ownership(self) -> None:
        """Checks that this server still owns the state, without a request to the store.

        Raises:
            LogFailed: Another server owns the state, or a write failed.
        """
        if self._failure is not None:
            # Raise a copy, because several threads can raise the same failure.
            raise type(self._failure)(str(self._failure))
