"""Command ``story``: prints the history of one bundle, from the job's journal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import attrs
from beam_runner_model.stories import BundleStatus, render_bundle_history

from beam_runner_server.job_commands.connecting import Command, print_json, print_lines
from beam_runner_server.job_commands.naming import add_job_argument, find_job

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_job_argument(parser)
    parser.add_argument("bundle", metavar="BUNDLE", type=int, help="number of the bundle")


def _run_command(client: JobClient, found: argparse.Namespace) -> int:
    story = client.get_bundle_history(find_job(client, found).job_id, found.bundle)
    if found.json:
        print_json(attrs.asdict(story))
    else:
        print_lines(render_bundle_history(story))
    return 1 if story.status in (BundleStatus.UNKNOWN, BundleStatus.NO_JOURNAL) else 0


COMMAND = Command(
    "story",
    "Prints all records of one bundle in the journal of a job: the time of its planning, the lane"
    " of each attempt, failures, the commit, and the data that the bundle read and wrote."
    " Requests the records from the server that runs the job or stores its state.",
    _run_command,
    _add_flags,
)
