"""Client that follows a job until it ends, and reconnects after a lost connection or a restart of the server."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient
    from beam_runner_jobservices.errors import JobApiError
    from beam_runner_model.jobs import JobMessage, StateEvent

_LOOK_SECONDS = 1.0
_LOST = ("UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED")
_CALL_SECONDS = 30.0

log = logging.getLogger("beam_runner_server")
_Answer = TypeVar("_Answer")


class JobListener(Protocol):
    """Interface of the object that receives the states and messages of a job."""

    def on_state(self, event: StateEvent) -> None:
        """Called with each state of the job."""

    def on_message(self, message: JobMessage) -> None:
        """Called with each message of the job."""


@attrs.frozen
class JobConnection:
    """Address of a job on a server, with methods that retry calls while the server is lost.

    Attributes:
        endpoint: the ``host:port`` of the server.
        reconnect_seconds: the time in seconds for which a client waits for a lost server.
        get_exit_reason: function that returns the reason why the server has exited permanently;
            empty while the server runs, or if another process may restart it.
    """

    endpoint: str
    job_id: str
    reconnect_seconds: float
    get_exit_reason: Callable[[], str]

    def follow_job(self, listener: JobListener) -> None:
        """Passes all states and messages to the listener, until the job has ended.

        Raises:
            RuntimeError: the server is lost for too long, or doesn't know the job.
        """
        from beam_runner_jobservices.client import JobClient
        from beam_runner_jobservices.errors import JobApiError
        from beam_runner_model.jobs import JobMessage

        pauses = _ReconnectPauses(self)
        try:
            with JobClient(self.endpoint) as client:
                # An open stream can block the exit of the program: Python stops gRPC's thread while
                # it holds the lock of the stream, and then destroys the stream, which needs the lock.
                atexit.register(client.close)
                try:
                    entries = client.follow_messages(
                        self.job_id, None, self.reconnect_seconds, pauses.pause
                    )
                    for entry in entries:
                        pauses.end()
                        if isinstance(entry, JobMessage):
                            listener.on_message(entry)
                        else:
                            listener.on_state(entry)
                finally:
                    atexit.unregister(client.close)
        except JobApiError as error:
            raise RuntimeError(self._explain_loss(error)) from None

    def call_server(self, method: Callable[[JobClient], _Answer]) -> _Answer:
        """Calls a method of the server, and returns the response. Repeats the call while the server
        is lost.

        Raises:
            RuntimeError: the server is lost for too long, or refuses.
        """
        from beam_runner_jobservices.client import JobClient
        from beam_runner_jobservices.errors import JobApiError

        pauses = _ReconnectPauses(self)
        waited = 0.0
        with JobClient(self.endpoint, _CALL_SECONDS) as client:
            while True:
                try:
                    return method(client)
                except JobApiError as error:
                    waited += _LOOK_SECONDS
                    if (
                        error.code not in _LOST
                        or waited > self.reconnect_seconds
                        or pauses.pause(_LOOK_SECONDS)
                    ):
                        raise RuntimeError(self._explain_loss(error)) from None

    def _explain_loss(self, error: JobApiError) -> str:
        reason = self.get_exit_reason()
        if reason:
            pass
        elif error.code == "NOT_FOUND":
            reason = (
                f"the server at {self.endpoint} doesn't know the job; a server that restarts knows"
                " its jobs only if it has a --state-dir"
            )
        elif error.code in _LOST:
            reason = (
                f"the server at {self.endpoint} has not responded for"
                f" {self.reconnect_seconds:.0f} s (--job_server_timeout): {error.text}"
            )
        else:
            reason = f"the server at {self.endpoint} refuses: {error.text}"
        return f"Can't follow the job {self.job_id}: {reason}"


class _ReconnectPauses:
    """Pauses between attempts to reconnect, and one log message for each loss of the connection."""

    def __init__(self, address: JobConnection) -> None:
        self._address = address
        self._is_lost = False

    def pause(self, seconds: float) -> bool:
        """Waits before the next attempt to reconnect; returns whether the server has exited for good."""
        threading.Event().wait(seconds)
        if self._address.get_exit_reason():
            return True
        if not self._is_lost:
            self._is_lost = True
            log.warning(
                "the job server at %s doesn't respond; waiting up to %.0f s to follow the job %s",
                self._address.endpoint,
                self._address.reconnect_seconds,
                self._address.job_id,
            )
        return False

    def end(self) -> None:
        """Logs that the server responds again, if the connection was lost."""
        if self._is_lost:
            self._is_lost = False
            log.warning("the job server at %s responds again", self._address.endpoint)
