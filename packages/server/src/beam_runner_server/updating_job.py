"""Handle of a job that replaces a running job."""

from __future__ import annotations

import threading

from beam_runner_driver.job.job import RunningJob
from beam_runner_driver.updates.job_update import JobUpdate
from beam_runner_jobservices.errors import NotReady
from beam_runner_model.jobs import JobMetrics
from beam_runner_model.observation import Execution, StageTimeSeries, ThreadStack


class UpdatingJob:
    """Handle of a job that replaces a running job, before and after the replacement. Thread-safe.

    Implements `JobHandle` and `JobObserver`.

    Args:
        update: request to replace the running job.
    """

    def __init__(self, update: JobUpdate) -> None:
        self._update = update
        self._lock = threading.Lock()
        self._running: RunningJob | None = None
        self._is_draining = False

    def attach_job(self, running: RunningJob) -> None:
        """Sets the started job, and forwards a cancel or drain request that arrived before."""
        with self._lock:
            self._running = running
            is_draining = self._is_draining
        if self._update.withdrawn.is_set():
            running.cancel()
        elif is_draining:
            running.drain()

    def cancel(self) -> None:
        """Cancels the new job. If the replacement isn't decided yet, the old job continues."""
        self._update.withdrawn.set()
        with self._lock:
            running = self._running
        if running is not None:
            running.cancel()

    def drain(self) -> None:
        """Drains the new job; before the replacement, the request waits."""
        with self._lock:
            self._is_draining = True
            running = self._running
        if running is not None:
            running.drain()

    def get_metrics(self) -> JobMetrics:
        """Returns the metrics of the job; none before the replacement."""
        with self._lock:
            running = self._running
        return JobMetrics() if running is None else running.get_metrics()

    def get_execution(self) -> Execution:
        """Returns the current activity of the job. Raises `NotReady` before the replacement."""
        return self._get_job().get_execution()

    def get_stage_series(self) -> tuple[StageTimeSeries, ...]:
        """Returns the history of the job's stages; none before the replacement."""
        with self._lock:
            running = self._running
        return () if running is None else running.get_stage_series()

    def get_stacks(self) -> tuple[ThreadStack, ...]:
        """Returns the stacks of the worker processes. Raises `NotReady` before the replacement."""
        return self._get_job().get_stacks()

    def _get_job(self) -> RunningJob:
        with self._lock:
            if self._running is None:
                raise NotReady("the job has not replaced the other job yet; try again later")
            return self._running
