"""Rollback of an update: the program of the replaced job runs again, with the state of the running job."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable

import attrs
from beam_runner_model.jobs import JobSpec, JobState, StateEvent
from beam_runner_model.successions import RollbackRequest

from beam_runner_jobservices.errors import JobRejected, NotFound, NotReady
from beam_runner_jobservices.finished_job import FinishedJob
from beam_runner_jobservices.job import Job
from beam_runner_jobservices.job_specs import (
    choose_job_id,
    find_missing_artifact,
    list_artifact_hashes,
    locate_artifacts,
)
from beam_runner_jobservices.ports import RollbackPlanner
from beam_runner_jobservices.recorder import UnfinishedJob
from beam_runner_jobservices.registry import JobRegistry
from beam_runner_jobservices.store import ArtifactStore

_AGAIN = "to run another pipeline, submit it with --update"


class RollbackStarter:
    """Submitter of rollbacks. Thread-safe.

    Args:
        plan_rollback: returns the pipeline options of the new job; None if the runner can't replace
            jobs.
        endpoint: the `host:port` of the artifact services.
        clock: returns wall-clock seconds since the epoch.
    """

    def __init__(
        self,
        registry: JobRegistry,
        store: ArtifactStore,
        plan_rollback: RollbackPlanner | None,
        endpoint: str,
        clock: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._store = store
        self._plan_rollback = plan_rollback
        self._endpoint = endpoint
        self._clock = clock

    def begin_rollback(self, job: Job | FinishedJob, request: RollbackRequest, user: str) -> str:
        """Submits the replaced program again: the program of the job that the running job replaced.
        The new job replaces the running job. Returns the id of the new job.

        Raises:
            NotReady: the job isn't running, or the server retains no program to go back to.
            JobRejected: the runner refuses the rollback.
            Unavailable: the server is shutting down, or the new job can't be recorded.
        """
        if self._plan_rollback is None:
            raise JobRejected("this runner can't replace running jobs")
        replaced = self._find_program(job)
        program = attrs.evolve(replaced, artifacts=locate_artifacts(replaced, self._store))
        options = self._plan_rollback(job.info, program, request)
        owner = f"rollback-{secrets.token_hex(8)}"
        new = UnfinishedJob(
            attrs.evolve(
                program,
                job_id=choose_job_id(program.job_name),
                options=options,
                options_json=json.dumps(options, ensure_ascii=False),
                retrieval_endpoint=self._endpoint,
                user=user,
            ),
            owner,
            owner,
            (StateEvent(JobState.STOPPED, self._clock()),),
        )
        # Become an owner of the files before the check, so that the end of their retention time can't remove them.
        self._store.hold_files(owner, list_artifact_hashes(program.artifacts))
        try:
            if missing := find_missing_artifact(program, self._store):
                raise NotReady(f"the program of job {replaced.job_id} is incomplete: {missing}")
            return self._registry.run_retained_job(new)
        except BaseException:
            self._store.release_files(owner)
            raise

    def _find_program(self, job: Job | FinishedJob) -> JobSpec:
        """Returns the specification of the job that a running job replaced."""
        name, state = job.info.job_id, job.current.state
        successor = job.get_times().successor
        if state is JobState.UPDATED and successor:
            raise NotReady(f"job {successor} has replaced job {name}: roll back job {successor}")
        if state is not JobState.RUNNING:
            raise NotReady(f"job {name} is {state.name}, and only a running job can be rolled back")
        predecessor = job.get_times().predecessor
        if not predecessor:
            raise NotReady(
                f"job {name} didn't replace another job, so it can't be rolled back; {_AGAIN}"
            )
        try:
            replaced = self._registry.get_job(predecessor)
        except NotFound:
            raise NotReady(f"the server has no record of job {predecessor}; {_AGAIN}") from None
        until = replaced.get_times().program_kept_until
        if until is None or not isinstance(replaced, FinishedJob):
            raise NotReady(
                f"the server retains no program of job {predecessor}, because job {name} is a "
                "rollback"
                f" or has --beam_spark_update_keep=0s; {_AGAIN}"
            )
        if until <= self._clock():
            ended = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(until))
            raise NotReady(
                f"the server retained the program of job {predecessor} until {ended} UTC; {_AGAIN}"
            )
        return replaced.make_job_spec()
