"""Limit on simultaneous job starts: if many jobs arrive together, most of them wait in order of
arrival.

Running all jobs at the same time finishes none of them sooner, and each running job needs separate
processes. A job counts only during its first seconds. Long jobs and streams therefore block no
other job, and share the slots with new jobs.
"""

from __future__ import annotations


class JobAdmission:
    """Queue of jobs that wait to start. Times are seconds on any monotonic clock.

    At most `most` of the running jobs may have started in the last `seconds` seconds.
    """

    def __init__(self, most: float, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._waiting: dict[str, None] = {}
        self._began: dict[str, float] = {}

    def try_start_job(self, job: str, now: float) -> bool:
        """Starts a waiting job if it can start now; returns whether the job has started.

        A job that can't start keeps its position in the queue, and its caller must try again.
        """
        if job not in self._began:
            self._waiting.setdefault(job)
            if job not in self.list_startable_jobs(now):
                return False
            del self._waiting[job]
            self._began[job] = now
        return True

    def remove_job(self, job: str) -> None:
        """Removes a job that has ended, whether or not it started."""
        self._waiting.pop(job, None)
        self._began.pop(job, None)

    def list_startable_jobs(self, now: float) -> list[str]:
        """Returns the waiting jobs that can start now, in order."""
        free = self._most - sum(now - began < self._seconds for began in self._began.values())
        return [job for place, job in enumerate(self._waiting) if place < free]
