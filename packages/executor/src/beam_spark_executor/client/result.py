"""The result of a job of `BeamSparkRunner`: Beam's result, except that an end that the user requested is no error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import grpc
from apache_beam.runners.portability.portable_runner import PipelineResult
from apache_beam.runners.runner import PipelineState

_STREAM_END_SECONDS = 1.0


class BeamSparkResult(PipelineResult):
    """The result of a pipeline.

    ``wait_until_finish`` returns ``DRAINED`` after a drain, whoever requested it, and ``CANCELLED``
    after `cancel` of this result. It raises RuntimeError if the job failed, or if another client
    cancelled it.

    Args:
        of: Beam's result, which this result replaces.
        endpoint: the ``host:port`` of the server.
        why_gone: returns why the server has exited; empty while it runs, or if the reason is
            unknown.
    """

    def __init__(self, of: PipelineResult, endpoint: str, why_gone: Callable[[], str]) -> None:
        super().__init__(
            of._job_service,
            of._job_id,
            of._message_stream,
            of._state_stream,
            of._cleanup_callbacks,
        )
        self._endpoint = endpoint
        self._why_gone = why_gone
        self._cancelled = False
        self._lock = threading.Lock()
        self._observer: threading.Thread | None = None
        self._failure: Exception | None = None

    @property
    def job_id(self) -> str:
        """The job's id on its server."""
        return str(self._job_id)

    def wait_until_finish(self, duration: float | None = None) -> str:
        """Waits for the job's end; may be called again, and by several threads at once.

        Args:
            duration: the limit in milliseconds; None waits without a limit.

        Returns:
            The job's state.

        Raises:
            RuntimeError: the job failed, or another client cancelled it; the text says why.
        """
        with self._lock:
            if self._observer is None:
                # Beam's own method reads streams of the server, which one thread may do once.
                self._observer = threading.Thread(
                    target=self._wait_and_close_streams, name="wait-until-finish", daemon=True
                )
                self._observer.start()
        self._observer.join(duration / 1000 if duration else None)
        if self._failure is not None:
            raise self._failure
        return str(self._state)

    def _wait_and_close_streams(self) -> None:
        try:
            super().wait_until_finish()
        except Exception as error:
            self._failure = error
        for stream in (self._message_stream, self._state_stream):
            _close_stream(stream)

    def cancel(self) -> None:
        """Requests the job's cancellation; `wait_until_finish` then returns CANCELLED."""
        self._cancelled = True
        super().cancel()

    def drain(self) -> None:
        """Requests a drain: the job's sources stop, and the job processes what they have emitted. Returns at once."""
        from beam_runner_jobservices.client import JobClient

        with JobClient(self._endpoint) as client:
            client.drain(self.job_id)

    def _observe_state(self, message_thread: threading.Thread) -> None:
        super()._observe_state(message_thread)
        expected = (PipelineState.DRAINED, *((PipelineState.CANCELLED,) if self._cancelled else ()))
        if self._state in expected:
            self._runtime_exception = None
        elif isinstance(self._runtime_exception, grpc.RpcError):
            self._runtime_exception = RuntimeError(
                self._lost_server_message(self._runtime_exception)
            )

    def _lost_server_message(self, error: Any) -> str:
        told = self._why_gone() or f"the server doesn't respond: {error.details()}"
        return f"Can't follow the job {self._job_id}: {told}"


def _close_stream(stream: Any) -> None:
    """Cancels a stream of the server, and waits until gRPC has finished with it.

    Beam leaves its streams open. If a program exits while gRPC's thread holds a stream's lock, the
    program hangs: Python stops such threads, and then destroys the stream, which needs the lock.
    """
    ended = threading.Event()
    stream.add_done_callback(lambda _: ended.set())
    stream.cancel()
    ended.wait(_STREAM_END_SECONDS)
