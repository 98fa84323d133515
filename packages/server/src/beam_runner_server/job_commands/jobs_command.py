"""The command ``jobs``: lists the jobs of a server."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from beam_runner_server.job_commands.connecting import Command, print_json, print_lines

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient
    from beam_runner_model.jobs import JobInfo
    from beam_runner_model.observation import JobTimes


def describe_times(job: JobInfo, times: JobTimes | None) -> dict[str, Any]:
    """Returns the description of a job as values that JSON supports. Times are seconds since the
    epoch.
    """
    return {
        "job_id": job.job_id,
        "job_name": job.job_name,
        "state": job.state.name,
        "submitted": times and times.submitted,
        "started": times and times.started,
        "ended": times and times.ended,
        "error": times.error if times else "",
        "kept_until": times and times.kept_until,
        "user": times.user if times else "",
        "predecessor": times.predecessor if times else "",
        "successor": times.successor if times else "",
        "program_kept_until": times and times.program_kept_until,
    }


def compute_run_seconds(times: JobTimes | None, now: float) -> float | None:
    """Returns the run time of a job in seconds; None if the run time is unknown."""
    if times is None or (times.started or times.submitted) is None:
        return None
    return (times.ended or now) - (times.started or times.submitted or 0.0)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--user", metavar="NAME", help="list only the jobs that this user submitted"
    )


def _run_command(client: JobClient, found: argparse.Namespace) -> int:
    from beam_runner_jobservices.client import read_times_by_job

    times = read_times_by_job(client)
    jobs = [
        job
        for job in client.list_jobs()
        if found.user is None or (job.job_id in times and times[job.job_id].user == found.user)
    ]

    def get_submission_time(job: JobInfo) -> float:
        known = times.get(job.job_id)
        return (known.submitted if known else None) or 0.0

    newest_first = sorted(jobs, key=get_submission_time, reverse=True)
    if found.json:
        print_json([describe_times(job, times.get(job.job_id)) for job in newest_first])
    elif not jobs:
        whose = "" if found.user is None else f" of user {found.user!r}"
        print(f"the server at {found.job_endpoint} has no jobs{whose}")
    else:
        print_lines(_format_job_table(newest_first, times))
    return 0


def _format_job_table(jobs: list[JobInfo], times: dict[str, JobTimes]) -> Iterator[str]:
    from beam_runner_jobservices.figures.texts import format_duration, format_utc_time

    from beam_runner_server.job_commands.tables import format_table

    now = time.time()
    has_users = any(known.user for known in times.values())
    rows = []
    for job in jobs:
        known = times.get(job.job_id)
        submitted = known.submitted if known else None
        lasted = format_duration(compute_run_seconds(known, now))
        begun = format_utc_time(submitted) if submitted else "–"
        user = ((known.user if known else "") or "–",) if has_users else ()
        rows.append((job.job_id, job.job_name, *user, job.state.name, begun, lasted))
    user_head = ("USER",) if has_users else ()
    head = ("ID", "NAME", *user_head, "STATE", "SUBMITTED (UTC)", "RUN TIME")
    return format_table(head, rows, flexible=1)


COMMAND = Command(
    "jobs", "Lists the jobs of a job server, the newest first.", _run_command, _add_flags
)
