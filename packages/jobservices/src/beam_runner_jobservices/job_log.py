"""The log of a job as records: by step, severity and text, a part at a time, the latest first to be had."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from beam_runner_model.jobs import Importance, JobMessage

from beam_runner_jobservices.texts import cut, seconds_of

MOST_LINES = 1_000
_MOST_CHARACTERS = 256 << 10
"""Of an answer, and of a line in it: whatever JSON makes of them, gRPC clients take it."""
_MOST_STEPS = 400


@attrs.frozen
class LogQuery:
    """What lines are wanted.

    - `step`: full name of a transform: lines of it, and of what is in it; empty for all.
    - `severity`: name of an `Importance`, the least that is wanted; empty for all.
    - `text`: what they contain, whatever its case.
    - `before`: the id of the line that follows those wanted; 0 for the latest.
    - `most`: how many lines, at most `MOST_LINES`; and how many `characters`, except that one line is always given.
    """

    step: str = attrs.field(default="", converter=str)
    severity: str = attrs.field(default="", converter=str)
    text: str = attrs.field(default="", converter=str)
    before: int = attrs.field(default=0, converter=int)
    most: int = attrs.field(default=MOST_LINES, converter=int)
    characters: int = attrs.field(default=_MOST_CHARACTERS, converter=int)


@attrs.frozen
class LogRecord:
    """A line of a job's log.

    - `time`: wall-clock seconds; None if the server does not know.
    - `severity`: the name of an `Importance`.
    - `step`: the full name of the transform that it is about, and `worker` the process that it came from, as
      `host:process`; empty where it has none.
    """

    id: int
    time: float | None
    severity: str
    step: str
    worker: str
    text: str


@attrs.frozen
class Logs:
    """The answer to a `LogQuery`.

    - `lines`: the last of those that were asked for, oldest first.
    - `found`: how many there are in all, from the oldest that is kept.
    - `dropped`: how many older messages are not kept any more.
    - `steps`: the full names of transforms that have lines, whatever was asked for; 400 at most, the latest first.
    """

    lines: tuple[LogRecord, ...] = ()
    found: int = 0
    dropped: int = 0
    steps: tuple[str, ...] = ()


def select_logs(messages: Iterable[JobMessage], query: LogQuery, dropped: int = 0) -> Logs:
    """The part of the log, given oldest first, that a query asks for; `dropped` messages were before these."""
    least = Importance.__members__.get(query.severity)
    wanted = query.text.lower()
    most = max(1, min(query.most, MOST_LINES))
    room = max(1, min(query.characters, _MOST_CHARACTERS))
    lines: list[LogRecord] = []
    steps: dict[str, None] = {}
    found, full = 0, False
    for message in reversed(tuple(messages)):
        if message.transform and len(steps) < _MOST_STEPS:
            steps.setdefault(message.transform)
        if (
            (query.before and int(message.message_id) >= query.before)
            or (least is not None and message.importance < least)
            or not _is_in(message.transform, query.step)
            or wanted not in message.line.lower()
        ):
            continue
        found += 1
        room -= len(message.line) + len(message.transform)
        full = full or len(lines) == most or (room < 0 and bool(lines))
        if not full:
            lines.append(_record(message))
    return Logs(tuple(reversed(lines)), found, dropped, tuple(steps))


def _is_in(transform: str, step: str) -> bool:
    return not step or transform == step or transform.startswith(f"{step}/")


def _record(message: JobMessage) -> LogRecord:
    return LogRecord(
        int(message.message_id),
        seconds_of(message.time),
        message.importance.name,
        message.transform,
        message.worker,
        cut(message.line, _MOST_CHARACTERS),
    )
