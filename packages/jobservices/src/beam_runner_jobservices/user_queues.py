"""The quotas of users: a limit of running jobs for each user, and a queue of the jobs beyond the limit.

A job of a user passes through these places:

| event | place before | place after |
|---|---|---|
| Run, and the user has room | none | running |
| Run, and the user has no room | none | reserved, at the end of the user's queue |
| Run, and the user's queue is full | none | none; Run fails |
| Run of a job that replaces a running job | none | running, even beyond the quota |
| the job is recorded and its client can see it | reserved | waiting |
| the user gets room, and the job is the first of the queue | waiting | running |
| the user gets room, and the job is the first of the queue | reserved | reserved |
| the job ends, whether it ran or not | any | none |

A restored job that an earlier server has begun is running, even beyond the quota. The other
restored jobs enter in the order of their submission, as by Run.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from beam_runner_model.jobs import JobSpec, JobState, StateEvent
from beam_runner_urns import options as option_urns

from beam_runner_jobservices.errors import LimitExceeded
from beam_runner_jobservices.recorder import UnfinishedJob
from beam_runner_jobservices.users import Quota


@attrs.define
class _QueuedJob:
    """Job in the queue. `spec` is None while the job only has a reserved place, so that it can't
    start yet.
    """

    user: str
    spec: JobSpec | None = None


class UserQueues:
    """Running and queued jobs of all users. Thread-safe."""

    def __init__(self, find_quota: Callable[[str], Quota]) -> None:
        self._find_quota = find_quota
        self._lock = threading.Lock()
        self._running: dict[str, str] = {}
        self._queued: dict[str, _QueuedJob] = {}

    def check_user_quota(self, user: str, options: Mapping[str, Any]) -> None:
        """Checks that the user may run or queue one more job with these options.

        Raises:
            LimitExceeded: the user's queue is full.
        """
        quota = self._find_quota(user)
        with self._lock:
            queued = self._count_queued(user)
            begins = _is_update(options) or (not queued and self._has_free_quota(user, quota))
            if begins or quota.waiting is None or queued < quota.waiting:
                return
        raise LimitExceeded(
            f"user {user!r} has {quota.running} running jobs and {queued} waiting jobs, which is"
            " the maximum: run the job again after another job has ended"
        )

    def add_job(self, user: str, job_id: str, options: Mapping[str, Any]) -> bool:
        """Adds a job. Returns whether the job runs immediately. If not, the job has a reserved
        place.
        """
        quota = self._find_quota(user)
        with self._lock:
            begins = not self._count_queued(user) and self._has_free_quota(user, quota)
            if begins or _is_update(options):
                self._running[job_id] = user
                return True
            self._queued[job_id] = _QueuedJob(user)
            return False

    def restore_jobs(self, jobs: Sequence[UnfinishedJob]) -> None:
        """Adds the jobs of an earlier server, which are in the order of their submission."""
        begun = {job.spec.job_id for job in jobs if _has_job_started(job)}
        with self._lock:
            for job in jobs:
                if job.spec.job_id in begun:
                    self._running[job.spec.job_id] = job.spec.user
        for job in jobs:
            if job.spec.job_id not in begun:
                self.add_job(job.spec.user, job.spec.job_id, job.spec.options)

    def is_queued(self, job_id: str) -> bool:
        """Returns whether the job is in the queue: waiting for its start, or with a reserved place."""
        with self._lock:
            return job_id in self._queued

    def mark_job_waiting(self, spec: JobSpec) -> None:
        """Lets a job with a reserved place wait for its start. Does nothing if the job has ended."""
        with self._lock:
            if spec.job_id in self._queued:
                self._queued[spec.job_id].spec = spec

    def describe_wait(self, job_id: str) -> str:
        """Returns why a queued job waits, and how many jobs are ahead."""
        with self._lock:
            queued = self._queued.get(job_id)
            if queued is None:
                return "the job begins"
            user = queued.user
            same = [one for one, job in self._queued.items() if job.user == user]
            running = self._count_running(user)
        return (
            f"the job waits, because user {user!r} has {running} running jobs, which is the"
            f" maximum; waiting jobs of this user that are ahead: {same.index(job_id)}"
        )

    def remove_job(self, job_id: str) -> None:
        """Removes a job that has ended; does nothing if the job is unknown."""
        with self._lock:
            self._running.pop(job_id, None)
            self._queued.pop(job_id, None)

    def start_queued_jobs(self) -> list[JobSpec]:
        """Marks waiting jobs as running, as far as the quotas of their users permit, and returns these jobs."""
        with self._lock:
            users = {job.user for job in self._queued.values()}
        # Read the quota without the lock, because it comes from a file.
        quotas = {user: self._find_quota(user) for user in users}
        begun = []
        with self._lock:
            blocked: set[str] = set()
            for job_id, job in tuple(self._queued.items()):
                quota = quotas.get(job.user)
                if job.spec is None or quota is None or not self._has_free_quota(job.user, quota):
                    # Later jobs of this user must not overtake this job.
                    blocked.add(job.user)
                elif job.user not in blocked:
                    del self._queued[job_id]
                    self._running[job_id] = job.user
                    begun.append(job.spec)
        return begun

    def _has_free_quota(self, user: str, quota: Quota) -> bool:
        """Returns whether the user's quota permits one more running job."""
        return quota.running is None or self._count_running(user) < quota.running

    def _count_running(self, user: str) -> int:
        return Counter(self._running.values())[user]

    def _count_queued(self, user: str) -> int:
        return sum(job.user == user for job in self._queued.values())


def _is_update(options: Mapping[str, Any]) -> bool:
    """Returns whether a job replaces a running job. Such a job can't wait until the running job
    ends.
    """
    return options.get(option_urns.UPDATE) in (True, "true", "True")


def _has_job_started(job: UnfinishedJob) -> bool:
    """Returns whether a server has begun to start the job. A waiting job can be DRAINING."""
    states = [entry.state for entry in job.entries if isinstance(entry, StateEvent)]
    return JobState.STARTING in states or JobState.RUNNING in states
