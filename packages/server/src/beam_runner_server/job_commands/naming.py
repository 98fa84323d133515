"""Search for the job that a command-line argument names: by its id, a unique part of its id, or its name."""

from __future__ import annotations

import argparse
import difflib
from typing import TYPE_CHECKING

from beam_runner_server.job_commands.connecting import CommandFailed

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient
    from beam_runner_model.jobs import JobInfo

_MOST_SHOWN = 5


def add_job_argument(parser: argparse.ArgumentParser) -> None:
    """Adds the argument that names a job."""
    parser.add_argument(
        "job",
        metavar="JOB",
        help="id of the job, a part of the id, or the job's name",
    )


def find_job(client: JobClient, found: argparse.Namespace) -> JobInfo:
    """Returns the job that the command line names. If several jobs have the name, returns the
    unfinished job, because each update of a stream leaves an ended job with the name.

    Raises:
        CommandFailed: no job matches, or several jobs match.
        JobApiError: the server doesn't respond, or refuses.
    """
    jobs = client.list_jobs()
    text = found.job
    by_id = {one.job_id: one for one in jobs}
    if text in by_id:
        return by_id[text]
    named = [one for one in jobs if one.job_name == text]
    matching = named or [one for one in jobs if text and text in one.job_id]
    unfinished = [one for one in named if not one.state.is_terminal]
    if len(matching) == 1 or len(unfinished) == 1:
        return (unfinished or matching)[0]
    if matching:
        shown = ", ".join(f"{one.job_id} ({one.state.name})" for one in matching[:_MOST_SHOWN])
        more = len(matching) - _MOST_SHOWN
        rest = f" and {more} more" if more > 0 else ""
        raise CommandFailed(f"{text!r} matches {len(matching)} jobs, {shown}{rest}: use an id")
    names = [name for one in jobs for name in (one.job_name, one.job_id)]
    near = difflib.get_close_matches(text, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else "; the command `jobs` lists all jobs"
    raise CommandFailed(f"the server at {found.job_endpoint} has no job {text!r}{hint}")
