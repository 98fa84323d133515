"""Health check of a worker pool."""

from __future__ import annotations

import threading
import time

import grpc

_HEALTH = "/grpc.health.v1.Health/Check"
"""A method that any server answers; an answer that the method is unknown is enough."""
_ANSWER_SECONDS = 60.0
_PAUSE_SECONDS = 5.0
_NO_ANSWERS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class PoolHealthCheck:
    """A check that asks a pool every 5 s; any thread may use it.

    Args:
        channel: the channel to the pool.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._check = channel.unary_unary(_HEALTH)
        self._lock = threading.Lock()
        self._call: grpc.Future | None = None
        self._next = 0.0

    def explain_outage(self, limit: float = 0.0) -> str | None:
        """Returns why the pool counts as gone: no process listens, or no answer came for a minute;
        otherwise None.

        Args:
            limit: how long to wait for an answer, in seconds; by default the previous answer
                counts.
        """
        with self._lock:
            call = self._get_or_start_request()
            if call is None:
                return None
            try:
                error = call.exception(limit)
            except (grpc.FutureTimeoutError, grpc.FutureCancelledError):
                return None
            self._call = None
            self._next = time.monotonic() + _PAUSE_SECONDS
        if isinstance(error, grpc.Call) and error.code() in _NO_ANSWERS:
            return f"{error.code().name}: {error.details()}"
        return None

    def _get_or_start_request(self) -> grpc.Future | None:
        """Returns the current request, which is started if it is due."""
        if self._call is None and time.monotonic() >= self._next:
            try:
                self._call = self._check.future(b"", timeout=_ANSWER_SECONDS)
            except ValueError:  # the channel was closed meanwhile
                return None
        return self._call
