"""Selection of the running job that an update replaces."""

from __future__ import annotations

from collections.abc import Iterable

from beam_runner_jobservices.errors import JobRejected
from beam_runner_model.jobs import JobInfo, JobSpec, JobState
from beam_runner_runtime.update_options import UPDATE_JOB, UpdateOptions

_OBSTACLES = {
    JobState.STOPPED: "waits for its start",
    JobState.STARTING: "hasn't started yet",
    JobState.DRAINING: "drains",
    JobState.CANCELLING: "is being cancelled",
}
_MOST = 10


def choose_job_to_replace(jobs: Iterable[JobInfo], job: JobSpec, update: UpdateOptions) -> str:
    """Returns the ID of the running job that a new job replaces.

    Raises:
        JobRejected: no job, or more than one job, can be replaced; the text says what to do.
    """
    others = [one for one in jobs if one.job_id != job.job_id]
    if update.job_id:
        found = [one for one in others if one.job_id == update.job_id]
        if not found:
            raise _make_rejection(
                f"--{UPDATE_JOB.name} is {update.job_id!r}, and this server has no such job"
            )
    else:
        named = [
            one for one in others if one.job_name == job.job_name and not one.state.is_terminal
        ]
        # Prefer running jobs, because a job that still waits can be another update of the same job.
        found = [one for one in named if one.state is JobState.RUNNING] or named
    if not found:
        raise _make_rejection(
            f"no running job has the name {job.job_name!r}: set --job_name to the name of the job"
            f" to replace, or --{UPDATE_JOB.name} to its ID"
        )
    if len(found) > 1:
        ids = ", ".join(one.job_id for one in found[:_MOST])
        raise _make_rejection(
            f"{len(found)} running jobs have the name {job.job_name!r}: set --{UPDATE_JOB.name} to"
            f" the ID of one of them: {ids}"
        )
    (chosen,) = found
    if chosen.state is not JobState.RUNNING:
        obstacle = _OBSTACLES.get(chosen.state, f"has ended as {chosen.state.name}")
        raise _make_rejection(f"job {chosen.job_id} {obstacle}, so another job can't replace it")
    return chosen.job_id


def _make_rejection(text: str) -> JobRejected:
    return JobRejected(text, unsupported=False)
