"""The log of a job by step, severity and text: as the server filters it, or its messages where it does not."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from beam_runner_jobservices.job_log import LogQuery, LogRecord, Logs, select_logs
from beam_runner_model.jobs import JobMessage

from .job_view import JobView
from .steps import Step
from .texts import iso, whole_number

_MOST_LINES = 500
_MOST_CHARACTERS = 80_000
_MOST_STEPS = 400


@attrs.frozen
class LogFilter:
    """What lines are wanted: those of `step` and what is in it, at least as important as `severity`
    (a name of `Importance`), that contain `text`, whatever its case, and came before the line with the id
    `before`; empty asks for nothing.
    """

    step: str = ""
    severity: str = ""
    text: str = ""
    before: str = ""

    @property
    def is_set(self) -> bool:
        return bool(self.step or self.severity or self.text)


@attrs.frozen
class LogLine:
    """A line of the log; `time` is ISO 8601, `step` a step's id, `worker` the process it came from; empty where not known."""

    id: int
    time: str
    severity: str
    step: str
    worker: str
    text: str


@attrs.frozen
class LogPart:
    """Lines, oldest first, the last of `total`; `dropped` older ones are not kept any more.

    `steps` are the ids of steps that have lines.
    """

    lines: tuple[LogLine, ...]
    total: int
    dropped: int
    steps: tuple[str, ...]


def last_lines(job: JobView, chosen: LogFilter, most: int = _MOST_LINES) -> LogPart:
    """The last of the lines that a filter leaves, as many as a page holds."""
    found = _ask(job, _query(job, chosen, most, _MOST_CHARACTERS))
    steps = dict.fromkeys(job.tree.find(name) for name in found.steps)
    return LogPart(
        tuple(_line(job, one) for one in found.lines), found.found, found.dropped, tuple(steps)
    )


def all_lines(job: JobView, chosen: LogFilter) -> list[LogLine]:
    """All lines that a filter leaves, oldest first."""
    parts: list[tuple[LogRecord, ...]] = []
    query = _query(job, chosen)
    while found := _ask(job, query).lines:
        parts.append(found)
        query = attrs.evolve(query, before=found[0].id)
    return [_line(job, one) for part in reversed(parts) for one in part]


def steps_to_choose(job: JobView, chosen: LogFilter, found: LogPart) -> list[Step]:
    """The steps to filter by: all, or in a large pipeline those with lines, and those around them."""
    steps = job.tree.steps
    if len(steps) <= _MOST_STEPS:
        return list(steps.values())
    told = {key for one in found.steps for key in (*job.tree.way_to(one), one)}
    wanted = {*told, job.tree.find(chosen.step)}
    return [step for key, step in steps.items() if key in wanted]


def _query(
    job: JobView,
    chosen: LogFilter,
    most: int = LogQuery().most,
    characters: int = LogQuery().characters,
) -> LogQuery:
    step = job.tree.find(chosen.step)
    return LogQuery(
        step=job.tree.steps[step].name if step else "",
        severity=chosen.severity,
        text=chosen.text,
        before=whole_number(chosen.before, 0),
        most=most,
        characters=characters,
    )


def _ask(job: JobView, query: LogQuery) -> Logs:
    found = job.ask_logs(query)
    return select_logs(_of_stream(job), query) if found is None else found


def _of_stream(job: JobView) -> Iterator[JobMessage]:
    """The messages of a server that tells no more, numbered here; what they are about is in their text."""
    for number, message in enumerate(job.snapshot.messages, 1):
        step, text = job.tree.names.step_of(message.text)
        name = message.text[1 : -len(text) - 2] if step else ""
        yield attrs.evolve(message, message_id=str(number), transform=name)


def _line(job: JobView, record: LogRecord) -> LogLine:
    time = "" if record.time is None else iso(record.time)
    step = job.tree.find(record.step)
    return LogLine(record.id, time, record.severity, step, record.worker, record.text)
