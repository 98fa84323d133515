"""A job that has ended: what the list of jobs shows of it is here, all else is read when asked for."""

from __future__ import annotations

from beam_runner_model.jobs import JobInfo, JobMetrics, JobState, StateEvent
from beam_runner_model.observation import JobTimes, StageSeries

from beam_runner_jobservices.archive import Archive
from beam_runner_jobservices.error_log import ErrorLog
from beam_runner_jobservices.errors import NotReady
from beam_runner_jobservices.history import JobHistory
from beam_runner_jobservices.limits import Limits
from beam_runner_jobservices.ports import JobObserver
from beam_runner_jobservices.recorder import EndedJob, Recorder
from beam_runner_jobservices.wire.descriptions import step_names


class Ended:
    """As `Job` is to those who ask, once nothing of the job changes any more. Thread-safe.

    Each method that reads raises `Damaged` where what is kept of the job is not what was.
    """

    suspended = False

    def __init__(self, job: EndedJob, recorder: Recorder, limits: Limits) -> None:
        self._job = job
        self._recorder = recorder
        self._limits = limits

    @property
    def size(self) -> int:
        """About how many bytes are kept of it."""
        return self._job.size

    @property
    def job_id(self) -> str:
        return self._job.job_id

    @property
    def info(self) -> JobInfo:
        job = self._job
        return JobInfo(job.job_id, job.job_name, job.last.state, job.options)

    @property
    def current(self) -> StateEvent:
        """The terminal state."""
        return self._job.last

    @property
    def history(self) -> JobHistory:
        """Its states and messages, read now."""
        return self._history(self._read())

    @property
    def observer(self) -> JobObserver:
        """Nothing tells any more what it does: raises `NotReady`."""
        raise NotReady("the job does not run")

    def series(self) -> tuple[StageSeries, ...]:
        """How its stages had been getting on in its last hour."""
        return self._read().series

    def times(self) -> JobTimes:
        """When it was submitted, came to run and ended."""
        return self._job.times

    def pipeline(self) -> bytes:
        """The serialized pipeline."""
        return self._read().pipeline

    def metrics(self) -> JobMetrics:
        """The final metrics."""
        return self._read().metrics

    def cancel(self) -> JobState:
        """Does nothing; the job's state."""
        return self._job.last.state

    drain = cancel

    def suspend(self) -> bool:
        """Whether the job is left to the next server: it is not."""
        return False

    def _history(self, archive: Archive) -> JobHistory:
        errors = ErrorLog(lambda: step_names(archive.pipeline), archive.errors)
        return JobHistory(self._limits, archive.entries, errors)

    def _read(self) -> Archive:
        return self._recorder.read(self._job.job_id)
