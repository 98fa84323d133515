"""Restriction of a call to the jobs that the calling user may see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import grpc

from beam_runner_jobservices.errors import NotFound
from beam_runner_jobservices.finished_job import FinishedJob
from beam_runner_jobservices.job import Job
from beam_runner_jobservices.registry import JobRegistry

OwnerLimit: TypeAlias = Callable[[Iterable[Any]], str | None]
"""A function that returns the user to whose jobs a call is limited, from the metadata of the call;
None if the call covers all jobs.
"""


class VisibleJobs:
    """The jobs of a registry, limited to those of the calling user if the user sees only own jobs."""

    def __init__(self, registry: JobRegistry, find_owner_limit: OwnerLimit) -> None:
        self._registry = registry
        self._find_owner_limit = find_owner_limit

    def get_job(self, job_id: str, context: grpc.ServicerContext) -> Job | FinishedJob:
        """Returns a job that the call may see.

        Raises:
            NotFound: the job doesn't exist, or belongs to another user. Both have the same text, so
                that users don't learn the ids of other jobs.
        """
        job = self._registry.get_job(job_id)
        owner = self._find_owner_limit(context.invocation_metadata())
        if owner is not None and job.get_times().user != owner:
            raise NotFound(f"no job {job_id!r} on this server")
        return job

    def list_jobs(self, context: grpc.ServicerContext) -> tuple[Job | FinishedJob, ...]:
        """Returns the jobs that the call may see, in the order in which they were run."""
        jobs = self._registry.list_jobs()
        owner = self._find_owner_limit(context.invocation_metadata())
        return (
            jobs if owner is None else tuple(one for one in jobs if one.get_times().user == owner)
        )
