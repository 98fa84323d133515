"""Finished jobs are forgotten beyond the limits of number, size and age."""

from __future__ import annotations

from beam_runner_jobservices.ended_jobs import EndedJob, EndedJobs
from beam_runner_jobservices.limits import ServerLimits


def jobs_of(limits: ServerLimits, *, count: int, size: int = 10) -> EndedJobs:
    """Returns jobs that ended one per second."""
    found = EndedJobs(limits, in_memory=False)
    for number in range(count):
        found.add_job(EndedJob(f"job-{number}", f"run-{number}", size, float(number)))
    return found


def forgotten(jobs: EndedJobs, now: float) -> list[str]:
    return [one.job_id for one in jobs.take_excess_jobs(now)]


def test_finished_jobs_above_number_limit_are_removed_oldest_first() -> None:
    jobs = jobs_of(ServerLimits(ended_jobs=2), count=4)
    assert forgotten(jobs, 0.0) == ["job-0", "job-1"]
    assert forgotten(jobs, 1e9) == []


def test_needed_finished_job_stays_and_other_jobs_are_removed_instead() -> None:
    jobs = jobs_of(ServerLimits(ended_jobs=2), count=4)

    def names(needed: str) -> list[str]:
        return [one.job_id for one in jobs.take_excess_jobs(0.0, lambda name: name == needed)]

    assert names("job-0") == ["job-1", "job-2"]
    assert names("") == []


def test_latest_finished_job_above_size_limit_is_not_removed() -> None:
    assert forgotten(jobs_of(ServerLimits(ended_bytes=5), count=2), 0.0) == ["job-0"]


def test_finished_jobs_above_age_limit_are_removed_including_latest() -> None:
    jobs = jobs_of(ServerLimits(ended_seconds=10.0), count=3)
    assert forgotten(jobs, 11.5) == ["job-0", "job-1"]
    assert forgotten(jobs, 12.5) == ["job-2"]
