"""One job from Run to its terminal state: executors report to it, clients follow and cancel it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from .history import JobHistory
from .limits import Limits
from .ports import JobHandle
from .records import Importance, JobInfo, JobMetrics, JobSpec, JobState, StateEvent
from .states import Verdict, judge
from .texts import one_line

_LOGGER = logging.getLogger(__name__)


class Job:
    """A job and its history. Implements `JobReporter`. Thread-safe.

    `on_end` is called once, on the thread that reports the terminal state and before readers learn
    of it.
    """

    def __init__(
        self,
        spec: JobSpec,
        *,
        limits: Limits,
        clock: Callable[[], float],
        on_end: Callable[[], None],
    ) -> None:
        self.spec = spec
        self.history = JobHistory(limits, StateEvent(JobState.STOPPED, clock()))
        self._clock = clock
        self._on_end = on_end
        self._lock = threading.RLock()
        self._handle: JobHandle | None = None

    @property
    def info(self) -> JobInfo:
        return JobInfo(
            self.spec.job_id,
            self.spec.job_name,
            self.history.current.state,
            self.spec.options,
        )

    def state(self, state: JobState, reason: str | None = None) -> bool:
        """See `JobReporter.state`."""
        with self._lock:
            present = self.history.current.state
            if judge(present, state) is Verdict.IGNORE:
                _LOGGER.debug(
                    "job %s is %s: ignored %s", self.spec.job_id, present.name, state.name
                )
                return False
            if reason is not None:
                importance = Importance.ERROR if state is JobState.FAILED else Importance.BASIC
                self.history.add_message(importance, reason, self._clock())
            if state.is_terminal:
                self._on_end()
            self.history.add_state(state, self._clock())
        _LOGGER.info("job %s is %s", self.spec.job_id, state.name)
        return True

    def message(self, importance: Importance, text: str, transform: str | None = None) -> None:
        """See `JobReporter.message`."""
        shown = f"[{transform}] {text}" if transform else text
        with self._lock:
            if not self.history.current.state.is_terminal:
                self.history.add_message(importance, shown, self._clock())

    def attach(self, handle: JobHandle) -> None:
        """Take the executor's handle; passes on a cancel that came before it."""
        with self._lock:
            self._handle = handle
            cancelled = self.history.current.state is JobState.CANCELLING
        if cancelled:
            self._pass_on_cancel(handle)

    def cancel(self) -> JobState:
        """Ask for the job's end and return its state; does nothing to a job that has ended."""
        with self._lock:
            self.state(JobState.CANCELLING)
            handle = self._handle
            state = self.history.current.state
        if handle is not None and not state.is_terminal:
            self._pass_on_cancel(handle)
        return self.history.current.state

    def _pass_on_cancel(self, handle: JobHandle) -> None:
        try:
            handle.cancel()
        except Exception as error:
            _LOGGER.exception("job %s: the executor failed to cancel it", self.spec.job_id)
            self.message(Importance.ERROR, f"the job could not be cancelled: {one_line(error)}")

    def metrics(self) -> JobMetrics:
        """The executor's metrics of the job; none before it has taken the job on."""
        with self._lock:
            handle = self._handle
        return JobMetrics() if handle is None else handle.metrics()
