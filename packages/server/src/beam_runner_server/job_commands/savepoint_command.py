"""Command ``savepoint``: copies the state of a stream to a folder or store. Another job can start from this copy."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import attrs

from beam_runner_server.job_commands.connecting import Command, print_json, print_lines
from beam_runner_server.job_commands.naming import add_job_argument, find_job

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient

_UNIT = 1024


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_job_argument(parser)
    parser.add_argument(
        "url",
        metavar="URL",
        help="new folder of the server's machine, or prefix in a store",
    )


def _run_command(client: JobClient, found: argparse.Namespace) -> int:
    job_id = find_job(client, found).job_id
    savepoint = client.make_savepoint(job_id, found.url)
    if found.json:
        print_json(attrs.asdict(savepoint))
    else:
        size = f"{savepoint.size / _UNIT:,.0f} KiB"
        print_lines(
            (
                f"savepoint of job {job_id} at {savepoint.url}: {savepoint.files:,} files, {size}",
                f"start a job from it with --beam_spark_from_savepoint={savepoint.url}",
            )
        )
    return 0


COMMAND = Command(
    "savepoint",
    "Copies the committed state of a running, failed or cancelled stream to a folder or a store. A"
    " running stream continues. The pipeline option --beam_spark_from_savepoint starts a job from"
    " the copy.",
    _run_command,
    _add_flags,
)
