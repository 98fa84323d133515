"""One job from Run to its terminal state: executors report to it, clients follow and cancel it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

import attrs
from beam_runner_model.errors import Unavailable
from beam_runner_model.jobs import (
    Importance,
    JobInfo,
    JobMetrics,
    JobSpec,
    JobState,
    MessageLine,
    MessageRecord,
    StateEvent,
)
from beam_runner_model.observation import JobTimes, StageSeries

from beam_runner_jobservices.archive import Archive
from beam_runner_jobservices.errors import JobRejected, NotReady
from beam_runner_jobservices.history import JobHistory
from beam_runner_jobservices.kept_series import joined, thinned
from beam_runner_jobservices.message_records import fit
from beam_runner_jobservices.ports import JobHandle, JobObserver
from beam_runner_jobservices.recorder import Recorder
from beam_runner_jobservices.states import is_entered
from beam_runner_jobservices.texts import one_line

_LOGGER = logging.getLogger(__name__)


@attrs.define(eq=False)
class Job:
    """A job and its history. Implements `JobReporter`. Thread-safe.

    `history` is what has become of it so far, and `series` how its stages were getting on before. `on_end` is called once, on the thread that reports the
    terminal state, after that is recorded and before readers learn of it; `on_ended` after they have. `kept_bytes` is about how many bytes are kept of
    it, once it has ended and can be read back.
    """

    spec: JobSpec
    history: JobHistory
    _series: tuple[StageSeries, ...] = ()
    _recorder: Recorder = attrs.field(kw_only=True)
    _clock: Callable[[], float] = attrs.field(kw_only=True)
    _on_end: Callable[[], None] = attrs.field(kw_only=True)
    _on_ended: Callable[[Job], None] = attrs.field(kw_only=True)
    _lock: threading.RLock = attrs.field(init=False, factory=threading.RLock)
    _handle: JobHandle | None = attrs.field(init=False, default=None)
    _metrics: JobMetrics = attrs.field(init=False, factory=JobMetrics)
    kept_bytes: int | None = attrs.field(init=False, default=None)
    _suspended: bool = attrs.field(init=False, default=False)
    _begun: bool = attrs.field(init=False, default=False)

    @property
    def handle(self) -> JobHandle | None:
        """The executor's handle; None before it has taken the job on, and after the end."""
        with self._lock:
            return self._handle

    @property
    def info(self) -> JobInfo:
        return JobInfo(
            self.spec.job_id,
            self.spec.job_name,
            self.history.current.state,
            self.spec.options,
        )

    def state(
        self, state: JobState, reason: str | None = None, record: MessageRecord = None
    ) -> bool:
        # Before the lock is taken, since the executor may report something meanwhile.
        asked = self._collect_metrics() if state.is_terminal else None
        with self._lock:
            present = self.history.current.state
            if self._suspended or not is_entered(present, state):
                _LOGGER.debug(
                    "job %s is %s: ignored %s", self.spec.job_id, present.name, state.name
                )
                return False
            if reason is not None:
                importance = Importance.ERROR if state is JobState.FAILED else Importance.BASIC
                self._add_messages((MessageLine(importance, reason, record=record),))
            event = StateEvent(state, self._clock())
            if state.is_terminal:
                archive = Archive(
                    self.spec.pipeline,
                    (*self.history.entries(), event),
                    self._metrics,
                    self.history.early_errors,
                    self._series,
                )
                self.kept_bytes = self._recorder.end(self.spec, archive)
                self._on_end()
            else:
                self._recorder.state(self.spec.job_id, event)
            self.history.add_state(event.state, event.time)
            if state.is_terminal and self._handle is asked:
                self._handle = None
        if state.is_terminal:
            # Of a handle that came meanwhile.
            self._collect_metrics()
            self._on_ended(self)
        _LOGGER.info("job %s is %s", self.spec.job_id, state.name)
        return True

    def message(
        self,
        importance: Importance,
        text: str,
        transform: str | None = None,
        record: MessageRecord = None,
    ) -> None:
        self.log((MessageLine(importance, text, transform or "", record=record),))

    def log(self, lines: Iterable[MessageLine]) -> None:
        with self._lock:
            if not self._suspended and not self.history.current.state.is_terminal:
                self._add_messages(lines)

    def _add_messages(self, lines: Iterable[MessageLine]) -> None:
        """Add messages, recorded before readers see them: their ids are never given again."""
        now = self._clock()
        new = [
            self.history.new_message(
                line.importance, line.text, now, line.transform, line.worker, fit(line.record)
            )
            for line in lines
        ]
        if new:
            history = self.history
            self._recorder.messages(
                self.spec.job_id, new, history.first_message_id, history.early_errors
            )
            self.history.add_messages(new)

    def begin(self) -> bool:
        """The executor is about to be given the job; whether it is to be, since it was not cancelled before."""
        with self._lock:
            if self.history.current.state.is_terminal:
                return False
            self._begun = True
            self.state(JobState.STARTING)
            return True

    def attach(self, handle: JobHandle) -> None:
        """Take the executor's handle; passes on a cancel or a drain that came before it."""
        with self._lock:
            self._handle = handle
            state = self.history.current.state
        self._pass_on(state, handle)
        if state.is_terminal:
            self._collect_metrics()

    def suspend(self) -> bool:
        """Take no more reports, and end the streams; whether the job has not ended.

        The job is as it is now when the next server takes it up.
        """
        with self._lock:
            self._suspended = True
            ended = self.history.current.state.is_terminal
        self.history.wake()
        return not ended

    @property
    def current(self) -> StateEvent:
        """The latest state."""
        return self.history.current

    def times(self) -> JobTimes:
        """When it was submitted, came to run and ended."""
        return JobTimes.of(self.spec.job_id, self.history.states(), self.history.last_error())

    def series(self) -> tuple[StageSeries, ...]:
        """How its stages have been getting on for the last hour, also under an earlier server.

        Raises as `observer`.
        """
        return joined(self._series, self.observer.series())

    def note_series(self) -> None:
        """Record how its stages have been getting on, if the runner tells."""
        try:
            series = thinned(self.series())
        except (JobRejected, NotReady):
            return
        if not self._suspended:
            self._recorder.series(self.spec.job_id, series)

    @property
    def observer(self) -> JobObserver:
        """What tells what the job does now.

        Raises:
            JobRejected: the runner does not tell.
            NotReady: no executor has the job.
        """
        handle = self.handle
        if handle is None:
            raise NotReady("the job does not run")
        if not isinstance(handle, JobObserver):
            raise JobRejected("this runner does not tell of the bundles of its jobs")
        return handle

    def pipeline(self) -> bytes:
        """The serialized pipeline."""
        return self.spec.pipeline

    @property
    def suspended(self) -> bool:
        """Whether nothing more is heard of the job from this server."""
        return self._suspended

    def cancel(self) -> JobState:
        """Ask for the job's end and return its state; does nothing to a job that has ended.

        Raises:
            Unavailable: the job is left to the next server.
        """
        return self._ask(JobState.CANCELLING, "cancel")

    def drain(self) -> JobState:
        """Ask for the end of the job's sources and return its state; does nothing to a job that has
        ended or is cancelled.

        Raises:
            Unavailable: the job is left to the next server.
        """
        return self._ask(JobState.DRAINING, "drain")

    def _ask(self, wish: JobState, what: str) -> JobState:
        with self._lock:
            if self._suspended:
                raise Unavailable(f"the job server is stopping; {what} the job when it is back")
            self.state(wish)
            if wish is JobState.CANCELLING and not self._begun:
                # Nobody else would end it before what it waits for is there.
                self.state(JobState.CANCELLED)
            handle = self._handle
            state = self.history.current.state
        if handle is not None:
            self._pass_on(state, handle)
        return self.history.current.state

    def _pass_on(self, wish: JobState, handle: JobHandle) -> None:
        """Tell the executor what a client has asked for, if one has."""
        wishes = {
            JobState.CANCELLING: (handle.cancel, "cancelled"),
            JobState.DRAINING: (handle.drain, "drained"),
        }
        if wish not in wishes:
            return
        tell, done = wishes[wish]
        try:
            tell()
        except Exception as error:
            _LOGGER.exception("job %s: the executor failed to have it %s", self.spec.job_id, done)
            self.message(Importance.ERROR, f"the job could not be {done}: {one_line(error)}")

    def metrics(self) -> JobMetrics:
        """The executor's metrics of the job; none before it has taken the job on."""
        with self._lock:
            ended = self.history.current.state.is_terminal
            handle, metrics = self._handle, self._metrics
        return metrics if ended or handle is None else handle.metrics()

    def _collect_metrics(self) -> JobHandle | None:
        """Keep the metrics and series as they are now, and return the handle that gave them.

        For a job that ends, or whose handle came after its end.
        """
        with self._lock:
            handle = self._handle
        if handle is None:
            return None
        try:
            metrics = handle.metrics()
            series = thinned(self.series()) if isinstance(handle, JobObserver) else self._series
        except BaseException:
            _LOGGER.exception("job %s: the executor failed to give metrics", self.spec.job_id)
        else:
            with self._lock:
                self._metrics, self._series = metrics, series
                if self.history.current.state.is_terminal:
                    self._recorder.metrics(self.spec.job_id, metrics)
        return handle
