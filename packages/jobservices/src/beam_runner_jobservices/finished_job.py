"""Finished job: the data for the list of jobs is in memory; other data is read from storage on request."""

from __future__ import annotations

import json

from beam_runner_model.jobs import JobInfo, JobMetrics, JobSpec, JobState, StateEvent
from beam_runner_model.observation import JobTimes, StageTimeSeries
from beam_runner_model.successions import Succession

from beam_runner_jobservices.archive import Archive
from beam_runner_jobservices.error_log import ErrorLog
from beam_runner_jobservices.errors import NotReady
from beam_runner_jobservices.history import JobHistory
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.ports import JobObserver
from beam_runner_jobservices.recorder import FinishedJobSummary, Recorder
from beam_runner_jobservices.wire.descriptions import read_step_names


class FinishedJob:
    """A finished job with the read methods of `Job`. Thread-safe.

    Each method that reads from disk raises `DamagedData` if the stored data is damaged.
    """

    suspended = False

    def __init__(self, job: FinishedJobSummary, recorder: Recorder, limits: ServerLimits) -> None:
        self._job = job
        self._recorder = recorder
        self._limits = limits

    @property
    def size(self) -> int:
        """The approximate stored size of the job in bytes."""
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
        """Reads and returns the states and messages of the job."""
        return self._make_history(self._read_archive())

    @property
    def observer(self) -> JobObserver:
        """Raises `NotReady`, because a finished job can't be observed."""
        raise NotReady("the job isn't running")

    def get_stage_series(self) -> tuple[StageTimeSeries, ...]:
        """Returns the history of the job's stages in its last hour."""
        return self._read_archive().series

    @property
    def succession(self) -> Succession:
        """Reads and returns the jobs that the job replaced and by which it was replaced, and its
        latest comparison with another job.
        """
        return self._read_archive().succession

    def get_times(self) -> JobTimes:
        """Returns the times at which the job was submitted, started to run, and finished."""
        return self._job.times

    def get_pipeline(self) -> bytes:
        """Returns the serialized pipeline."""
        return self._read_archive().pipeline

    def make_job_spec(self) -> JobSpec:
        """Returns the specification of the job, with the artifacts if the server retains its program."""
        options = self._job.options
        return JobSpec(
            self._job.job_id,
            self._job.job_name,
            self.get_pipeline(),
            options,
            json.dumps(options, ensure_ascii=False),
            self._job.artifacts,
            retrieval_endpoint="",
            user=self._job.times.user,
        )

    def get_metrics(self) -> JobMetrics:
        """Returns the final metrics."""
        return self._read_archive().metrics

    def cancel(self) -> JobState:
        """Returns the job's terminal state. A finished job can't be cancelled."""
        return self._job.last.state

    drain = cancel

    def suspend(self) -> bool:
        """Returns False, because a finished job isn't suspended."""
        return False

    def _make_history(self, archive: Archive) -> JobHistory:
        errors = ErrorLog(lambda: read_step_names(archive.pipeline), archive.errors)
        return JobHistory(self._limits, archive.entries, errors)

    def _read_archive(self) -> Archive:
        return self._recorder.read_archive(self._job.job_id)
