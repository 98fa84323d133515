"""Command ``replay``: feeds quarantined elements back into a running streaming job."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from beam_runner_server.job_commands.connecting import Command, print_json, print_lines
from beam_runner_server.job_commands.naming import add_job_argument, find_job

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient
    from beam_runner_model.replays import ReplayReport

_REASONS = {
    "expired": "all their windows have expired",
    "not an element": "only elements can be replayed",
    "no step": "the job has no step that continues the step that read them",
    "coder changed": "an update changed the coder of the step's input",
    "step ended": "the input of the step has ended, or the job drains",
    "no file": "the quarantine doesn't have their file",
}


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_job_argument(parser)
    parser.add_argument(
        "url",
        metavar="URL",
        help="URL of --beam_spark_quarantine",
    )
    parser.add_argument(
        "--include-expired",
        action="store_true",
        help="also replay elements whose windows have expired, if their step has no state and no"
        " side inputs",
    )


def _run_command(client: JobClient, found: argparse.Namespace) -> int:
    job_id = find_job(client, found).job_id
    report = client.replay_quarantine(job_id, found.url, expired=found.include_expired)
    if found.json:
        print_json(attrs.asdict(report))
    else:
        print_lines(_format_report(report))
    return 1 if report.problems else 0


def _format_report(report: ReplayReport) -> Iterator[str]:
    from beam_runner_jobservices.figures.texts import sanitize_for_display

    yield f"replayed: {report.replayed:,}, {report.late:,} of them late"
    yield f"replayed earlier: {report.earlier:,}"
    for one in report.problems:
        where = f" of step {one.step}" if one.step else ""
        detail = f" ({one.detail})" if one.detail else ""
        line = f"not replayed: {one.count:,}{where}: {_REASONS[one.problem]}{detail}"
        yield sanitize_for_display(line)


COMMAND = Command(
    "replay",
    "Makes the quarantined elements of a stream input of their steps again, each element once. Run"
    " the command after an update has corrected the pipeline. The exit code is 1 if elements stay"
    " in the quarantine.",
    _run_command,
    _add_flags,
)
