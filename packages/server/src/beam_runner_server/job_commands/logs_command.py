"""The command ``logs``: prints the log of a job, and follows it."""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import attrs

from beam_runner_server.flag_values import parse_count
from beam_runner_server.job_commands.connecting import Command
from beam_runner_server.job_commands.naming import add_job_argument, find_job

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient
    from beam_runner_jobservices.job_log import JobLogLine
    from beam_runner_model.jobs import JobInfo, JobMessage

_SEVERITIES = ("debug", "detailed", "basic", "warning", "error")
_RECONNECT_SECONDS = 60.0
_STREAM_SECONDS = 2.0
"""The limit in seconds for reading the messages of a running job from a server that can't query logs."""


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add_job_argument(parser)
    parser.add_argument(
        "-f", "--follow", action="store_true", help="print new lines until the job ends"
    )
    parser.add_argument(
        "--step",
        default="",
        metavar="STEP",
        help="full name of a transform whose lines to print",
    )
    parser.add_argument(
        "--severity",
        choices=_SEVERITIES,
        default="detailed",
        help="lowest severity of the lines (default: %(default)s)",
    )
    parser.add_argument(
        "--tail",
        type=parse_count,
        metavar="N",
        help="print only the last N lines, and new lines with --follow",
    )


def _run_command(client: JobClient, found: argparse.Namespace) -> int:
    job = find_job(client, found)
    show = _print_json if found.json else _print_line
    if not found.follow:
        _print_last(_read_stored_lines(client, job, found), found.tail, show)
        return 0
    if found.tail is None:
        last = 0
    else:
        lines = _read_stored_lines(client, job, found)
        last = _print_last(lines, found.tail, show)
    for line in _follow_lines(client, job, found, None, _RECONNECT_SECONDS):
        if line.id > last or not last:
            show(line)
    return 0


def _print_last(
    lines: Iterable[JobLogLine], most: int | None, show: Callable[[JobLogLine], None]
) -> int:
    """Prints the last lines of a job's log; returns the id of the last line, or 0 without lines."""
    last = 0
    for line in deque(lines, most) if most else lines:
        show(line)
        last = line.id
    return last


def _read_stored_lines(
    client: JobClient, job: JobInfo, found: argparse.Namespace
) -> Iterable[JobLogLine]:
    """Returns the stored log lines of a job, oldest first."""
    from beam_runner_jobservices.errors import JobApiError
    from beam_runner_jobservices.job_log import MOST_LINES, LogQuery

    query = LogQuery(
        found.step, found.severity.upper(), most=min(found.tail or MOST_LINES, MOST_LINES)
    )
    parts: list[tuple[JobLogLine, ...]] = []
    try:
        while True:
            part = client.query_logs(job.job_id, query)
            parts.append(part.lines)
            count = sum(map(len, parts))
            if len(part.lines) >= part.found or (found.tail and count >= found.tail):
                return [line for lines in reversed(parts) for line in lines]
            query = attrs.evolve(query, before=part.lines[0].id)
    except JobApiError as error:
        if error.code != "UNIMPLEMENTED":
            raise
    return list(_read_lines_until_limit(client, job, found))


def _read_lines_until_limit(
    client: JobClient, job: JobInfo, found: argparse.Namespace
) -> Iterator[JobLogLine]:
    """Yields log lines from the message stream until a time limit, because the stream has no end while the job runs."""
    from beam_runner_jobservices.errors import JobApiError

    try:
        yield from _follow_lines(client, job, found, _STREAM_SECONDS, 0.0)
    except JobApiError as error:
        if error.code != "DEADLINE_EXCEEDED":
            raise


def _follow_lines(
    client: JobClient,
    job: JobInfo,
    found: argparse.Namespace,
    timeout: float | None,
    reconnect_seconds: float,
) -> Iterator[JobLogLine]:
    """Yields the selected log lines of a job, from its start to its end."""
    from beam_runner_jobservices.job_log import LogQuery, select_logs
    from beam_runner_jobservices.wire.descriptions import read_step_names
    from beam_runner_model.jobs import JobMessage

    names = read_step_names(client.get_pipeline(job.job_id))
    query = LogQuery(found.step, found.severity.upper())
    for entry in client.follow_messages(job.job_id, timeout, reconnect_seconds):
        if isinstance(entry, JobMessage):
            step, rest = names.split_step_name(entry.text)
            name = entry.text.removesuffix(f"] {rest}")[1:] if step else ""
            message = attrs.evolve(_number_messages_of_stream(entry), transform=name)
            yield from select_logs((message,), query).lines


def _number_messages_of_stream(message: JobMessage) -> JobMessage:
    return message if message.message_id.isdecimal() else attrs.evolve(message, message_id="0")


def _print_line(line: JobLogLine) -> None:
    from beam_runner_jobservices.figures.texts import sanitize_for_display

    moment = time.gmtime(line.time) if line.time is not None else None
    shown = time.strftime("%Y-%m-%dT%H:%M:%SZ", moment) if moment else "–"
    step = f"[{line.step}] " if line.step else ""
    print(f"{shown} {line.severity:8} {sanitize_for_display(step + line.text)}", flush=True)


def _print_json(line: JobLogLine) -> None:
    print(json.dumps(attrs.asdict(line)), flush=True)


COMMAND = Command(
    "logs",
    "Prints the log of a job: lines of user code, warnings and errors, with the time in UTC, the"
    " severity and the transform. With --json, each line is one JSON object.",
    _run_command,
    _add_flags,
)
