"""Whether what is kept in a store is still this server's to continue."""

from __future__ import annotations

import secrets
import threading

from beam_runner_storage.durable.logged import LogFailed


class Ownership:
    """What all logs of a server have in common: who writes them, and that none goes on once one can't. Thread-safe.

    Attributes:
        writer: tells this server's objects from others'.
    """

    def __init__(self) -> None:
        self.writer = secrets.token_bytes(16)
        self._lock = threading.Lock()
        self._failure: LogFailed | None = None

    @property
    def failure(self) -> LogFailed | None:
        """Why nothing more is written."""
        return self._failure

    def fail(self, failure: LogFailed) -> None:
        """Nothing more is written from now on; of several reasons the first one is told."""
        with self._lock:
            self._failure = self._failure or failure

    def check(self) -> None:
        """Returns if it is this server's, as far as it knows.

        Raises:
            LogFailed: it is not, or something could not be written.
        """
        if self._failure is not None:
            # Many threads are told.
            raise type(self._failure)(str(self._failure))
