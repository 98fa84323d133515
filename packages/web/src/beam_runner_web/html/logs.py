"""The log of a job by step, severity and text. If the server has no log call, the log consists of the
job's messages.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from beam_runner_jobservices.figures.step_tree import StepNode
from beam_runner_jobservices.figures.texts import format_iso_seconds
from beam_runner_jobservices.job_log import JobLogLine, LogAnswer, LogQuery, select_logs
from beam_runner_model.jobs import JobMessage

from beam_runner_web.html.rendering import parse_whole_number

from .job_view import JobView

_MOST_LINES = 500
_MOST_CHARACTERS = 80_000
_MOST_STEPS = 400


@attrs.frozen
class LogFilter:
    """A filter for lines.

    Attributes:
        step: selects the lines of a step and of its parts.
        severity: the lowest severity to select (a name of `Importance`).
        text: a text that the lines contain, case-insensitive.
        before: selects the lines before the line with this id. Empty values select everything.
    """

    step: str = ""
    severity: str = ""
    text: str = ""
    before: str = ""

    @property
    def is_filtered(self) -> bool:
        return bool(self.step or self.severity or self.text)


@attrs.frozen
class LogLine:
    """A line of the log. `time` is ISO 8601, `step` a step's id, and `worker` the process of the line;
    empty if unknown.
    """

    id: int
    time: str
    severity: str
    step: str
    worker: str
    text: str


@attrs.frozen
class LogPart:
    """The last lines of a selection of `total` lines, oldest first. The server has dropped `dropped` older
    lines.

    `steps` are the ids of steps that have lines.
    """

    lines: tuple[LogLine, ...]
    total: int
    dropped: int
    steps: tuple[str, ...]


def read_last_log_lines(job: JobView, chosen: LogFilter, most: int = _MOST_LINES) -> LogPart:
    """Returns the last lines that match a filter, up to the size of a page."""
    found = _query_log(job, _make_query(job, chosen, most, _MOST_CHARACTERS))
    steps = dict.fromkeys(job.tree.find_step(name) for name in found.steps)
    return LogPart(
        tuple(_make_log_line(job, one) for one in found.lines),
        found.found,
        found.dropped,
        tuple(steps),
    )


def read_all_log_lines(job: JobView, chosen: LogFilter) -> list[LogLine]:
    """Yields all lines that match a filter, oldest first."""
    parts: list[tuple[JobLogLine, ...]] = []
    query = _make_query(job, chosen)
    while found := _query_log(job, query).lines:
        parts.append(found)
        query = attrs.evolve(query, before=found[0].id)
    return [_make_log_line(job, one) for part in reversed(parts) for one in part]


def list_filter_steps(job: JobView, chosen: LogFilter, found: LogPart) -> list[StepNode]:
    """Returns the steps for the filter of the log. In a large pipeline, these are only steps with
    lines, and their composites.
    """
    steps = job.tree.steps
    if len(steps) <= _MOST_STEPS:
        return list(steps.values())
    told = {key for one in found.steps for key in (*job.tree.list_ancestors(one), one)}
    wanted = {*told, job.tree.find_step(chosen.step)}
    return [step for key, step in steps.items() if key in wanted]


def _make_query(
    job: JobView,
    chosen: LogFilter,
    most: int = LogQuery().most,
    characters: int = LogQuery().characters,
) -> LogQuery:
    step = job.tree.find_step(chosen.step)
    return LogQuery(
        step=job.tree.steps[step].name if step else "",
        severity=chosen.severity,
        text=chosen.text,
        before=parse_whole_number(chosen.before, 0),
        most=most,
        characters=characters,
    )


def _query_log(job: JobView, query: LogQuery) -> LogAnswer:
    found = job.ask_logs(query)
    return select_logs(_number_messages(job), query) if found is None else found


def _number_messages(job: JobView) -> Iterator[JobMessage]:
    """Returns the messages of a job server that has no log service, with numbers, and with the step from the text."""
    for number, message in enumerate(job.snapshot.messages, 1):
        step, text = job.tree.names.split_step_name(message.text)
        name = message.text[1 : -len(text) - 2] if step else ""
        yield attrs.evolve(message, message_id=str(number), transform=name)


def _make_log_line(job: JobView, record: JobLogLine) -> LogLine:
    time = "" if record.time is None else format_iso_seconds(record.time)
    step = job.tree.find_step(record.step)
    return LogLine(record.id, time, record.severity, step, record.worker, record.text)
