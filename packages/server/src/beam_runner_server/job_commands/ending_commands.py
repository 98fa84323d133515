"""The commands ``cancel`` and ``drain``: request the end of a job."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from beam_runner_server.job_commands.connecting import Command, CommandFailed, print_json
from beam_runner_server.job_commands.naming import add_job_argument, find_job

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient
    from beam_runner_model.jobs import JobState


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_job_argument(parser)
    parser.add_argument("--wait", action="store_true", help="wait until the job has ended")


def _request_job_end(
    client: JobClient,
    found: argparse.Namespace,
    request: Callable[[str], JobState],
    wanted: str,
) -> int:
    job = find_job(client, found)
    if job.state.is_terminal and job.state.name != wanted:
        raise CommandFailed(f"job {job.job_id} has already ended: {job.state.name}")
    state = job.state if job.state.is_terminal else request(job.job_id)
    if found.wait and not state.is_terminal:
        state = client.wait_until_finish(job.job_id)
    if found.json:
        print_json({"job_id": job.job_id, "job_name": job.job_name, "state": state.name})
    else:
        print(f"job {job.job_id} is {state.name}")
    return 1 if state.is_terminal and state.name != wanted else 0


def _cancel_job(client: JobClient, found: argparse.Namespace) -> int:
    return _request_job_end(client, found, client.cancel_job, "CANCELLED")


def _drain_job(client: JobClient, found: argparse.Namespace) -> int:
    return _request_job_end(client, found, client.drain_job, "DRAINED")


CANCEL = Command(
    "cancel",
    "Cancels a job. The job stops without processing its remaining input. The exit code is 0 if"
    " the job is cancelled or will be.",
    _cancel_job,
    _add_flags,
)
DRAIN = Command(
    "drain",
    "Drains a job: its sources stop, and the job ends after it has processed what they have"
    " emitted. The exit code is 0 if the job is drained or will be.",
    _drain_job,
    _add_flags,
)
