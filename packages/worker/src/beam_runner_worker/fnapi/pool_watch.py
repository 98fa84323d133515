"""Health check of a worker pool over gRPC."""

from __future__ import annotations

import threading
import time

import grpc

_HEALTH = "/grpc.health.v1.Health/Check"
"""Method that every gRPC server answers. The answer that the method is unknown also shows that the server is alive."""
_ANSWER_SECONDS = 60.0
_PAUSE_SECONDS = 5.0
_NO_ANSWERS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class PoolHealthCheck:
    """Check that sends a request to a pool at most every 5 s. Thread-safe."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._check = channel.unary_unary(_HEALTH)
        self._lock = threading.Lock()
        self._call: grpc.Future | None = None
        self._next = 0.0

    def explain_outage(self, limit: float = 0.0) -> str | None:
        """Returns the reason if the pool is unavailable: no process listens, or no answer arrives for
        60 s. Returns None otherwise.

        Args:
            limit: maximum time to wait for an answer, in seconds. With 0, the result is based on an
                earlier request.
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
        """Returns the pending request; starts a new request if the next request is due."""
        if self._call is None and time.monotonic() >= self._next:
            try:
                self._call = self._check.future(b"", timeout=_ANSWER_SECONDS)
            except ValueError:  # another thread has closed the channel
                return None
        return self._call
