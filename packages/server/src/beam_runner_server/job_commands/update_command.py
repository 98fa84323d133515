"""The command ``update``: prints the latest comparison of a job with another job, or rolls back a job."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from beam_runner_server.job_commands.connecting import Command, print_json, print_lines
from beam_runner_server.job_commands.naming import add_job_argument, find_job
from beam_runner_server.job_commands.rolling_back import (
    add_rollback_flags,
    check_flags,
    roll_back,
)

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient
    from beam_runner_model.successions import Succession


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_job_argument(parser)
    add_rollback_flags(parser)


def _run_command(client: JobClient, found: argparse.Namespace) -> int:
    check_flags(found)
    if found.back:
        return roll_back(client, found)
    succession = client.get_succession(find_job(client, found).job_id)
    if found.json:
        print_json(attrs.asdict(succession))
    else:
        print_lines(_format_lines(succession))
    return 0


def _format_lines(succession: Succession) -> Iterator[str]:
    from beam_runner_jobservices.figures.texts import sanitize_for_display
    from beam_runner_model.shadow_rendering import render_shadow_report
    from beam_runner_model.update_rendering import render_update_report

    if succession.predecessor:
        yield f"replaced job {sanitize_for_display(succession.predecessor)}"
    if succession.successor:
        yield f"replaced by job {sanitize_for_display(succession.successor)}"
    if not succession.compared:
        yield "the job was compared with no other job"
        return
    yield f"comparison with job {sanitize_for_display(succession.compared)}:"
    yield from map(sanitize_for_display, render_update_report(succession.report))
    if succession.shadow.exists:
        yield f"shadow run of {succession.shadow.seconds:.0f} s with this job:"
        yield from map(sanitize_for_display, render_shadow_report(succession.shadow))


COMMAND = Command(
    "update",
    "Prints which jobs a job replaced and was replaced by, and the findings of its latest comparison"
    " and shadow run with another job. The pipeline options --update and --beam_spark_update=check compare jobs. With"
    " --back, the command goes back to the program of the job before a running job.",
    _run_command,
    _add_flags,
)
