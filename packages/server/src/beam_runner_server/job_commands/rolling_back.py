"""Command ``update --back``, which rolls an update back: its flags, its request and its result."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

import attrs

from beam_runner_server.job_commands.connecting import CommandFailed, print_json, print_lines
from beam_runner_server.job_commands.naming import find_job

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient
    from beam_runner_model.successions import RollbackRequest, Succession

_FLAGS_OF_ROLLBACKS = ("check", "drop", "trust", "quiet", "transform_name_mapping")


def add_rollback_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of a rollback. Each flag also accepts the name of the corresponding pipeline
    option of an update, because update reports recommend these options.
    """
    flags = parser.add_argument_group("rollback")
    flags.add_argument(
        "--back",
        action="store_true",
        help="replace JOB by the program before its update, which continues with the present state",
    )
    flags.add_argument(
        "--check",
        action="store_true",
        help="with --back, only print the report",
    )
    for name, text in (
        ("drop", "step or state whose data the rollback may drop, or source that it may start"),
        ("trust", "step or state whose old coder reads what the new coder wrote"),
    ):
        flags.add_argument(
            f"--{name}",
            f"--beam_spark_update_{name}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"with --back, a {text}; can be repeated",
        )
    flags.add_argument(
        "--quiet",
        "--beam_spark_update_quiet",
        default="",
        metavar="DURATION",
        help="with --back, the longest time in which the running job finishes its open bundles"
        " (default: 10s)",
    )
    flags.add_argument(
        "--transform_name_mapping",
        default="",
        metavar="JSON",
        help="with --back, the old names of steps by their names in the running job (default: the"
        " reverse of the mapping of the update)",
    )


def check_flags(found: argparse.Namespace) -> None:
    """Checks that flags of a rollback have an effect.

    Raises:
        CommandFailed: a flag has no effect without ``--back``.
    """
    useless = [name for name in _FLAGS_OF_ROLLBACKS if getattr(found, name)]
    if useless and not found.back:
        raise CommandFailed(f"--{useless[0]} has no effect without --back: set --back as well")


def roll_back(client: JobClient, found: argparse.Namespace) -> int:
    """Begins a rollback, waits for the outcome of the rollback, and prints the report. Returns the
    exit code.
    """
    job = find_job(client, found)
    request = _read_request(found)
    new = client.roll_back(job.job_id, request)
    state = _wait_for_outcome(client, new)
    succession = client.get_succession(new)
    is_done = state == ("DONE" if request.is_check else "RUNNING")
    if found.json:
        print_json({"job_id": new, "state": state, **attrs.asdict(succession)})
    else:
        print_lines(_format_outcome(client, job.job_id, new, state, succession))
    return 0 if is_done else 1


def _read_request(found: argparse.Namespace) -> RollbackRequest:
    from beam_runner_model.successions import RollbackRequest

    return RollbackRequest(
        _read_mapping(found.transform_name_mapping),
        tuple(found.drop),
        tuple(found.trust),
        found.quiet,
        found.check,
    )


def _read_mapping(text: str) -> dict[str, str]:
    try:
        mapping = json.loads(text) if text else {}
    except ValueError:
        mapping = None
    if not isinstance(mapping, dict) or not all(isinstance(one, str) for one in mapping.values()):
        raise CommandFailed(
            f"--transform_name_mapping is {text!r}; expected a JSON object of names, such as"
            ' {"New step": "Old step"}'
        )
    return mapping


def _wait_for_outcome(client: JobClient, job_id: str) -> str:
    """Waits until a job has replaced the running job or has ended, and returns its state."""
    for event in client.follow_states(job_id):
        if event.state.is_terminal or event.state.name == "RUNNING":
            return event.state.name
    return "UNSPECIFIED"


def _format_outcome(
    client: JobClient, old: str, new: str, state: str, succession: Succession
) -> list[str]:
    from beam_runner_jobservices.figures.texts import sanitize_for_display
    from beam_runner_model.update_rendering import render_update_report

    lines = [*map(sanitize_for_display, render_update_report(succession.report))]
    if state == "RUNNING":
        return [*lines, f"job {new} has replaced job {old}"]
    error = {one.job_id: one.error for one in client.get_job_times()}.get(new)
    return [*lines, sanitize_for_display(f"job {new} is {state}{error and f': {error}'}")]
