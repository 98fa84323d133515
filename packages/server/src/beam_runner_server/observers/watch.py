"""Thread that polls the jobs of a server every few seconds, and passes them to an exporter."""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol

from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.local_access import LocalAccess
from beam_runner_model.jobs import JobState
from beam_runner_model.observation import JobTimes
from beam_runner_model.threads import start_helper_thread

from beam_runner_server.observers.observed_job import ObservedJob

_LOOK_SECONDS = 1.0
_LARGEST_SHARE = 0.1
"""Maximum fraction of the time that the thread spends in polls, so that many jobs don't load the server."""
_LONGEST_PAUSE_SECONDS = 30.0
_CLOSE_SECONDS = 15.0

log = logging.getLogger(__name__)


class JobExporter(Protocol):
    """Interface of an exporter, which sends data about jobs to another system. One thread calls all methods."""

    def handle_sample(self, job: ObservedJob) -> None:
        """Handles the current state of an unfinished job. Called at each poll."""

    def handle_job_end(self, job: ObservedJob) -> None:
        """Handles a job that has ended since the previous poll. Called once for each job."""

    def close(self) -> None:
        """Sends the remaining data. Called once, after the last poll."""


class JobWatch:
    """Polls all jobs that run or end while the server runs."""

    def __init__(self, door: LocalAccess, exporter: JobExporter) -> None:
        self._client = JobClient(door.target, credentials=Credentials(token=door.token))
        self._exporter = exporter
        self._active: dict[str, ObservedJob] = {}
        self._ended: set[str] = set()
        self._since = time.time()
        self._fails = False
        self._stopping = threading.Event()
        self._thread = start_helper_thread(self._poll_until_stopped, "job-watch")

    def stop(self) -> None:
        """Polls the jobs for the last time, and closes the exporter."""
        self._stopping.set()
        self._thread.join(_CLOSE_SECONDS)
        self._client.close()

    def _poll_until_stopped(self) -> None:
        # Don't measure the first poll, which opens the connection.
        self._sample_jobs()
        pause = _LOOK_SECONDS
        while not self._stopping.wait(pause):
            began = time.monotonic()
            self._sample_jobs()
            spent = time.monotonic() - began
            pause = max(_LOOK_SECONDS, min(spent / _LARGEST_SHARE, _LONGEST_PAUSE_SECONDS))
        self._sample_jobs()
        try:
            self._exporter.close()
        except Exception:
            log.warning("Can't send the last records of jobs", exc_info=True)

    def _sample_jobs(self) -> None:
        try:
            # Read the states before the times, so that a job in a terminal state has an end.
            states = {job_id: self._client.get_state(job_id).state for job_id in self._active}
            times = {one.job_id: one for one in self._client.get_job_times()}
            states |= self._add_new_jobs(times)
        except Exception as error:
            if not self._fails:
                log.warning("Can't list the jobs to export: %s", error, exc_info=True)
            self._fails = True
            return
        self._fails = False
        for job_id, job in list(self._active.items()):
            if job_id not in times:
                del self._active[job_id]
                continue
            try:
                job.refresh(states[job_id], times[job_id])
                if job.state.is_terminal:
                    del self._active[job_id]
                    self._ended.add(job_id)
                    self._exporter.handle_job_end(job)
                else:
                    self._exporter.handle_sample(job)
            except Exception:
                # Continue with other jobs, because an error in one job must not end the export of all jobs.
                log.warning("Can't export the records of job %s", job_id, exc_info=True)
        self._ended &= times.keys()

    def _add_new_jobs(self, times: dict[str, JobTimes]) -> dict[str, JobState]:
        """Adds jobs that are unfinished, or have ended since the start of the thread, and returns their states."""
        new = {
            job_id
            for job_id, one in times.items()
            if job_id not in self._active
            and job_id not in self._ended
            and (one.ended is None or one.ended >= self._since)
        }
        states: dict[str, JobState] = {}
        for info in self._client.list_jobs() if new else ():
            if info.job_id in new:
                one = times[info.job_id]
                is_new = one.submitted is None or one.submitted >= self._since
                self._active[info.job_id] = ObservedJob(self._client, info, one, is_new=is_new)
                # The job can have ended after the times were read. In this case, the next poll reports its end.
                early = info.state.is_terminal and one.ended is None
                states[info.job_id] = JobState.RUNNING if early else info.state
        return states
