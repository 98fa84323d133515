"""Job of the server, from Run to its terminal state. The executor reports to the job; clients follow and cancel it."""

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
from beam_runner_model.observation import JobTimes, StageTimeSeries
from beam_runner_model.successions import Succession

from beam_runner_jobservices.archive import Archive
from beam_runner_jobservices.errors import JobRejected, NotReady
from beam_runner_jobservices.history import JobHistory
from beam_runner_jobservices.message_records import truncate_record
from beam_runner_jobservices.ports import JobHandle, JobObserver
from beam_runner_jobservices.recorder import FinishedJobSummary, Recorder
from beam_runner_jobservices.states import should_enter_state
from beam_runner_jobservices.stored_series import downsample_series, join_series
from beam_runner_jobservices.texts import format_exception

_LOGGER = logging.getLogger(__name__)


@attrs.define(eq=False)
class Job:
    """Job with its history of states and messages. Implements `JobReporter`. Thread-safe.

    Args:
        history: the states and messages so far.
        series: the history of the job's stages under an earlier server.
        succession: the jobs before and after the job, and its latest comparison.
        on_end: called once, on the thread that reports the terminal state, after the server has
            recorded the state and before readers see it.
        on_ended: called after readers can see the terminal state.

    Attributes:
        kept_bytes: the approximate stored size in bytes of a finished job that can be read back.
    """

    spec: JobSpec
    history: JobHistory
    _series: tuple[StageTimeSeries, ...] = ()
    succession: Succession = attrs.field(factory=Succession)
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
        """The executor's handle; None before the executor has accepted the job, and after the job's end."""
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

    def report_state(
        self, state: JobState, reason: str | None = None, record: MessageRecord = None
    ) -> bool:
        # Read the metrics before taking the lock, because the executor may report a state or a
        # message during the call.
        asked = self._collect_metrics() if state.is_terminal else None
        with self._lock:
            present = self.history.current.state
            if self._suspended or not should_enter_state(present, state):
                _LOGGER.debug(
                    "job %s is %s; ignored the reported state %s",
                    self.spec.job_id,
                    present.name,
                    state.name,
                )
                return False
            if reason is not None:
                importance = Importance.ERROR if state is JobState.FAILED else Importance.BASIC
                self._add_messages((MessageLine(importance, reason, record=record),))
            event = StateEvent(state, self._clock())
            if state.is_terminal:
                archive = Archive(
                    self.spec.pipeline,
                    (*self.history.list_entries(), event),
                    self._metrics,
                    self.history.early_errors,
                    self._series,
                    self.succession,
                )
                self.kept_bytes = self._recorder.end_job(self.spec, archive)
                self._on_end()
            else:
                self._recorder.add_state(self.spec.job_id, event)
            self.history.add_state(event.state, event.time)
            if state.is_terminal and self._handle is asked:
                self._handle = None
        if state.is_terminal:
            # Collect the metrics again if the executor's handle arrived after the first attempt.
            self._collect_metrics()
            self._on_ended(self)
        _LOGGER.info("job %s is %s", self.spec.job_id, state.name)
        return True

    def report_message(
        self,
        importance: Importance,
        text: str,
        transform: str | None = None,
        record: MessageRecord = None,
    ) -> None:
        self.report_messages((MessageLine(importance, text, transform or "", record=record),))

    def report_messages(self, lines: Iterable[MessageLine]) -> None:
        with self._lock:
            if not self._suspended and not self.history.current.state.is_terminal:
                self._add_messages(lines)

    def _add_messages(self, lines: Iterable[MessageLine]) -> None:
        """Adds messages. Stores them before clients can read them, so that a restarted server never
        uses an id twice.
        """
        now = self._clock()
        new = [
            self.history.create_message(
                line.importance,
                line.text,
                now,
                line.transform,
                line.worker,
                truncate_record(line.record),
            )
            for line in lines
        ]
        if new:
            history = self.history
            self._recorder.add_messages(
                self.spec.job_id, new, history.first_message_id, history.early_errors
            )
            self.history.add_messages(new)

    def record_succession(self, change: Succession) -> None:
        with self._lock:
            if not self._suspended and not self.history.current.state.is_terminal:
                self.succession = self.succession.merge(change)
                self._recorder.put_succession(self.spec.job_id, self.succession)

    def mark_started(self) -> bool:
        """Marks the job as passed to the executor; returns False if a client has cancelled the job before."""
        with self._lock:
            if self.history.current.state.is_terminal:
                return False
            self._begun = True
            self.report_state(JobState.STARTING)
            return True

    def set_executor_handle(self, handle: JobHandle) -> None:
        """Stores the executor's handle, and forwards a cancel or drain request that arrived before the handle."""
        with self._lock:
            self._handle = handle
            state = self.history.current.state
        self._forward_request(state, handle)
        if state.is_terminal:
            self._collect_metrics()

    def suspend(self) -> bool:
        """Suspends the job at the server's shutdown: ignores later reports, and ends the clients'
        streams. Returns whether the job is unfinished.

        The next server continues the job from its current state.
        """
        with self._lock:
            self._suspended = True
            ended = self.history.current.state.is_terminal
        self.history.wake_waiting_readers()
        return not ended

    @property
    def current(self) -> StateEvent:
        """The latest state."""
        return self.history.current

    def get_times(self) -> JobTimes:
        """Returns the times at which the job was submitted, started to run, and finished."""
        return JobTimes.from_states(
            self.spec.job_id,
            self.history.list_states(),
            self.history.find_last_error(),
            self.spec.user,
            self.succession,
        )

    def make_summary(
        self, preparation_id: str, *, keeps_program: bool
    ) -> FinishedJobSummary | None:
        """Returns the summary of the finished job; None if the server stored no record of the job.

        Args:
            preparation_id: the id that the job was run with.
            keeps_program: whether the server retains the program of the job for a rollback.
        """
        if self.kept_bytes is None:
            return None
        info = self.info
        return FinishedJobSummary(
            info.job_id,
            info.job_name,
            info.options,
            preparation_id,
            self.current,
            self.get_times(),
            self.kept_bytes,
            artifacts=self.spec.artifacts if keeps_program else {},
        )

    def get_stage_series(self) -> tuple[StageTimeSeries, ...]:
        """Returns the history of the job's stages over the last hour, including the time under an
        earlier server.

        Raises the errors of `observer`.
        """
        return join_series(self._series, self.observer.get_stage_series())

    def record_stage_series(self) -> None:
        """Records the history of the job's stages, if the runner reports a history."""
        try:
            series = downsample_series(self.get_stage_series())
        except (JobRejected, NotReady):
            return
        if not self._suspended:
            self._recorder.put_stage_series(self.spec.job_id, series)

    @property
    def observer(self) -> JobObserver:
        """Returns the observer of the job's running bundles, stages and threads.

        Raises:
            JobRejected: the runner has no observer.
            NotReady: the executor has not started the job.
        """
        handle = self.handle
        if handle is None:
            raise NotReady("the job isn't running")
        if not isinstance(handle, JobObserver):
            raise JobRejected("this runner doesn't report the bundles of its jobs")
        return handle

    def get_pipeline(self) -> bytes:
        """Returns the serialized pipeline."""
        return self.spec.pipeline

    @property
    def suspended(self) -> bool:
        """Whether this server ignores all further reports of the job."""
        return self._suspended

    def cancel(self) -> JobState:
        """Requests the job's cancellation and returns the job's state; does nothing to a finished job.

        Raises:
            Unavailable: the job is left to the next server.
        """
        return self._request_cancel_or_drain(JobState.CANCELLING, "cancel")

    def drain(self) -> JobState:
        """Requests a drain and returns the job's state; does nothing to a finished or cancelled job.

        Raises:
            Unavailable: the job is left to the next server.
        """
        return self._request_cancel_or_drain(JobState.DRAINING, "drain")

    def _request_cancel_or_drain(self, wish: JobState, what: str) -> JobState:
        with self._lock:
            if self._suspended:
                raise Unavailable(
                    f"the job server is shutting down; {what} the job"
                    " after the server has restarted"
                )
            self.report_state(wish)
            if wish is JobState.CANCELLING and not self._begun:
                # Change the state here: the job still waits for resources, so no executor would report its end.
                self.report_state(JobState.CANCELLED)
            handle = self._handle
            state = self.history.current.state
        if handle is not None:
            self._forward_request(state, handle)
        return self.history.current.state

    def _forward_request(self, wish: JobState, handle: JobHandle) -> None:
        """Passes a client's request to the executor, if one exists."""
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
            _LOGGER.exception(
                "job %s: the executor raised an error, and the job is not %s",
                self.spec.job_id,
                done,
            )
            self.report_message(
                Importance.ERROR, f"the job can't be {done}: {format_exception(error)}"
            )

    def get_metrics(self) -> JobMetrics:
        """Returns the executor's metrics of the job; none before the executor has accepted the job."""
        with self._lock:
            ended = self.history.current.state.is_terminal
            handle, metrics = self._handle, self._metrics
        return metrics if ended or handle is None else handle.get_metrics()

    def _collect_metrics(self) -> JobHandle | None:
        """Stores the job's current metrics and stage history, and returns the handle that supplied
        this data.

        Used when a job ends, or when its handle arrives after the end.
        """
        with self._lock:
            handle = self._handle
        if handle is None:
            return None
        try:
            metrics = handle.get_metrics()
            series = (
                downsample_series(self.get_stage_series())
                if isinstance(handle, JobObserver)
                else self._series
            )
        except BaseException:
            _LOGGER.exception("job %s: the executor failed to return metrics", self.spec.job_id)
        else:
            with self._lock:
                self._metrics, self._series = metrics, series
                if self.history.current.state.is_terminal:
                    self._recorder.replace_metrics(self.spec.job_id, metrics)
        return handle
