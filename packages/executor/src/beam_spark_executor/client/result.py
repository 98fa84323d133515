"""Result of a `BeamSparkRunner` job. It differs from Beam's result: a drain or a cancellation by
the user doesn't raise an error.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from apache_beam.runners.portability.portable_runner import MESSAGE_LOG_LEVELS, PipelineResult
from apache_beam.runners.runner import PipelineState

from beam_spark_executor.client.error_texts import format_failure
from beam_spark_executor.client.following import JobConnection
from beam_spark_executor.client.printed_lines import read_printed_line
from beam_spark_executor.client.progress import JobProgress

if TYPE_CHECKING:
    from beam_runner_model.jobs import JobMessage, StateEvent

log = logging.getLogger(__name__)


class BeamSparkResult(PipelineResult):
    """The result of a pipeline.

    ``wait_until_finish`` returns ``DRAINED`` after a drain and ``UPDATED`` after another job has
    replaced the job, whoever requested that, and ``CANCELLED`` after `cancel` of this result. It
    raises RuntimeError if the job failed, or if another client
    cancelled it. All methods survive a restart of the server, if the server still knows the job.

    Args:
        of: Beam's result, whose place this result takes.
        progress: shows the progress while a thread waits.
        interrupt: the text to show after Ctrl-C, see `interrupts`.
        is_verbose: whether the error of a failed job has the frames of the runner.
    """

    def __init__(
        self,
        of: PipelineResult,
        address: JobConnection,
        progress: JobProgress,
        interrupt: str,
        *,
        is_verbose: bool = False,
    ) -> None:
        super().__init__(of._job_service, of._job_id, (), (), of._cleanup_callbacks)
        self._state = PipelineState.UNKNOWN
        self._address = address
        self._progress = progress
        self._interrupt = interrupt
        self._is_verbose = is_verbose
        self._cancelled = False
        self._lock = threading.Lock()
        self._observer: threading.Thread | None = None
        self._failure: Exception | None = None

    @property
    def job_id(self) -> str:
        """The job's id on the server that runs the job."""
        return str(self._job_id)

    @property
    def endpoint(self) -> str:
        """The ``host:port`` of the job's server."""
        return self._address.endpoint

    @property
    def state(self) -> str:
        """The job's current state on the server that runs the job."""
        return _get_state_name(
            self._address.call_server(lambda client: client.get_state(self.job_id))
        )

    def wait_until_finish(self, duration: float | None = None) -> str:
        """Waits for the job's end. Several threads can call this method at the same time.

        Args:
            duration: the limit in milliseconds; None waits without a limit.

        Returns:
            The job's state.

        Raises:
            RuntimeError: the job failed, or another client cancelled it; the text says why.
        """
        with self._lock:
            if self._observer is None:
                # One thread follows the job for all waiting threads, so that each message is logged once.
                self._observer = threading.Thread(
                    target=self._follow_to_end, name="wait-until-finish", daemon=True
                )
                self._observer.start()
        try:
            self._observer.join(duration / 1000 if duration else None)
        except KeyboardInterrupt:
            self._progress.show_interruption(self._interrupt)
            raise
        if self._failure is not None:
            raise self._failure
        return str(self._state)

    def _follow_to_end(self) -> None:
        listener = _Listener(self, self._progress)
        try:
            with self._progress.watch(self._address):
                self._address.follow_job(listener)
            self._progress.show_end(self._address)
            if self._state != PipelineState.DONE and not self._is_requested():
                text = format_failure(
                    self.job_id, self._state, listener.last_error, is_verbose=self._is_verbose
                )
                self._failure = RuntimeError(text)
        except Exception as error:
            self._failure = error
        finally:
            self._cleanup()

    def _is_requested(self) -> bool:
        """Returns whether the job ended by a user's request: a drain, an update, or `cancel` of this result."""
        return self._state in (PipelineState.DRAINED, PipelineState.UPDATED) or (
            self._cancelled and self._state == PipelineState.CANCELLED
        )

    def cancel(self) -> None:
        """Requests the job's cancellation; `wait_until_finish` then returns CANCELLED."""
        self._cancelled = True
        try:
            self._address.call_server(lambda client: client.cancel_job(self.job_id))
        finally:
            self._cleanup()

    def drain(self) -> None:
        """Requests a drain: the job's sources stop, and the job processes the elements that they
        have emitted. Doesn't wait for the end.
        """
        self._address.call_server(lambda client: client.drain_job(self.job_id))


class _Listener:
    """Listener that logs the messages of a job as Beam does, and sets the state of the job's
    result.

    The listener doesn't log the error directly before the state FAILED, because the result raises
    that error.
    """

    def __init__(self, result: BeamSparkResult, progress: JobProgress) -> None:
        self._result = result
        self._progress = progress
        self._held: JobMessage | None = None
        self.last_error = "unknown error"

    def on_state(self, event: StateEvent) -> None:
        state = _get_state_name(event)
        if state == PipelineState.FAILED:
            self._held = None
        self._log_deferred_error()
        self._result._state = state
        self._progress.set_state(state)
        log.info("Job state changed to %s", state)

    def on_message(self, message: JobMessage) -> None:
        self._log_deferred_error()
        if MESSAGE_LOG_LEVELS[message.importance.value] == logging.ERROR:
            self.last_error = message.text
            self._held = message
        else:
            self._log_message(message)

    def _log_deferred_error(self) -> None:
        if self._held is not None:
            self._log_message(self._held)
            self._held = None

    def _log_message(self, message: JobMessage) -> None:
        with self._progress.pause():
            printed = read_printed_line(message)
            if printed is None:
                logging.log(MESSAGE_LOG_LEVELS[message.importance.value], "%s", message.text)
            else:
                print(printed, flush=True)


def _get_state_name(event: StateEvent) -> str:
    """Returns Beam's name of a state."""
    return str(getattr(PipelineState, event.state.name))
