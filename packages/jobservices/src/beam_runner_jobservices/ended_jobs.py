"""Selection of finished jobs that the server removes from its list of jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from beam_runner_jobservices.limits import ServerLimits


@attrs.frozen
class EndedJob:
    """A finished job.

    Attributes:
        preparation_id: the id of the prepared job, which the client's Run call contained.
        size: the approximate packed size in bytes.
        ended: the time of the end, in seconds since the epoch.
    """

    job_id: str
    preparation_id: str
    size: int
    ended: float


class EndedJobs:
    """Finished jobs, sorted by the time of their end. Not thread-safe.

    Args:
        in_memory: whether the server stores finished jobs only in memory.
    """

    def __init__(self, limits: ServerLimits, *, in_memory: bool) -> None:
        self._limits = limits
        self._most_bytes = limits.ended_bytes_in_memory if in_memory else limits.ended_bytes
        self._jobs: deque[EndedJob] = deque()
        self._bytes = 0

    def add_job(self, job: EndedJob) -> None:
        """Adds a job after its end."""
        self._jobs.append(job)
        self._bytes += job.size

    def take_excess_jobs(
        self, now: float, is_needed: Callable[[str], bool] = lambda job_id: False
    ) -> list[EndedJob]:
        """Removes and returns the jobs that exceed a limit, the oldest first.

        Only the age limit applies to the latest job. Jobs for which `is_needed` returns True stay.
        """
        taken: list[EndedJob] = []
        jobs = tuple(self._jobs)
        for job in jobs:
            is_excess = job is not jobs[-1] and self._exceeds_size()
            if not (is_excess or self._is_expired(job, now)):
                break
            if not is_needed(job.job_id):
                self._jobs.remove(job)
                self._bytes -= job.size
                taken.append(job)
        return taken

    def _exceeds_size(self) -> bool:
        return len(self._jobs) > self._limits.ended_jobs or self._bytes > self._most_bytes

    def _is_expired(self, job: EndedJob, now: float) -> bool:
        most = self._limits.ended_seconds
        return most is not None and now - job.ended > most
