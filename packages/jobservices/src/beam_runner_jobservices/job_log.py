"""Queries of a job's log, by step, severity and text. The answer is a limited number of lines, the latest first."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from beam_runner_model.jobs import Importance, JobMessage
from beam_runner_model.texts import is_step_or_in_composite

from beam_runner_jobservices.texts import parse_iso_time, truncate_middle

MOST_LINES = 1_000
_MOST_CHARACTERS = 256 << 10
"""The maximum number of characters of an answer, and of one line. JSON of this size fits the limit of gRPC clients."""
_MOST_STEPS = 400


@attrs.frozen
class LogQuery:
    """A query for lines of a job's log.

    Attributes:
        step: the full name of a transform; selects the lines of the transform and of its parts.
            Empty selects all lines.
        severity: the name of an `Importance`, the lowest to select; empty selects all.
        text: a text that the lines contain, case-insensitive.
        before: the id of the line after the selected ones; 0 selects the latest lines.
        most: the maximum number of lines, at most `MOST_LINES`.
        characters: the maximum number of characters. The answer has at least one line in any case.
    """

    step: str = attrs.field(default="", converter=str)
    severity: str = attrs.field(default="", converter=str)
    text: str = attrs.field(default="", converter=str)
    before: int = attrs.field(default=0, converter=int)
    most: int = attrs.field(default=MOST_LINES, converter=int)
    characters: int = attrs.field(default=_MOST_CHARACTERS, converter=int)


@attrs.frozen
class JobLogLine:
    """A line of a job's log.

    Attributes:
        time: wall-clock seconds; None if unknown.
        severity: the name of an `Importance`.
        step: the full name of the line's transform, or empty.
        worker: the process that wrote the line, as `host:process`, or empty.
    """

    id: int
    time: float | None
    severity: str
    step: str
    worker: str
    text: str


@attrs.frozen
class LogAnswer:
    """The answer to a `LogQuery`.

    Attributes:
        lines: the last of the selected lines, oldest first.
        found: the number of selected lines among all stored lines.
        dropped: the number of older messages that the server has dropped.
        steps: the full names of transforms that have lines, independent of the query; at most 400,
            the latest first.
    """

    lines: tuple[JobLogLine, ...] = ()
    found: int = 0
    dropped: int = 0
    steps: tuple[str, ...] = ()


def select_logs(messages: Iterable[JobMessage], query: LogQuery, dropped: int = 0) -> LogAnswer:
    """Returns the part of a log that a query selects.

    Args:
        dropped: the number of older messages that the server no longer stores.
    """
    least = Importance.__members__.get(query.severity)
    wanted = query.text.lower()
    most = max(1, min(query.most, MOST_LINES))
    room = max(1, min(query.characters, _MOST_CHARACTERS))
    lines: list[JobLogLine] = []
    steps: dict[str, None] = {}
    found, full = 0, False
    for message in reversed(tuple(messages)):
        if message.transform and len(steps) < _MOST_STEPS:
            steps.setdefault(message.transform)
        if (
            (query.before and int(message.message_id) >= query.before)
            or (least is not None and message.importance < least)
            or (query.step and not is_step_or_in_composite(message.transform, query.step))
            or wanted not in message.line.lower()
        ):
            continue
        found += 1
        room -= len(message.line) + len(message.transform)
        full = full or len(lines) == most or (room < 0 and bool(lines))
        if not full:
            lines.append(_make_log_line(message))
    return LogAnswer(tuple(reversed(lines)), found, dropped, tuple(steps))


def _make_log_line(message: JobMessage) -> JobLogLine:
    return JobLogLine(
        int(message.message_id),
        parse_iso_time(message.time),
        message.importance.name,
        message.transform,
        message.worker,
        truncate_middle(message.line, _MOST_CHARACTERS),
    )
