"""The log of a job, filtered by step, severity and text."""

from __future__ import annotations

import attrs
from beam_runner_jobservices import Importance

from .job_view import JobView, LogLine
from .steps import Step

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


def filtered(job: JobView, chosen: LogFilter) -> list[LogLine]:
    """The lines that a filter leaves, oldest first."""
    lines = job.log_lines
    if chosen.before:
        ids = [line.id for line in lines]
        lines = lines[: ids.index(chosen.before)] if chosen.before in ids else lines
    if chosen.severity in Importance.__members__:
        least = Importance[chosen.severity]
        lines = [line for line in lines if Importance[line.severity] >= least]
    step = job.tree.find(chosen.step)
    if step:
        lines = [
            line
            for line in lines
            if line.step and (line.step == step or step in job.tree.way_to(line.step))
        ]
    if chosen.text:
        wanted = chosen.text.lower()
        lines = [line for line in lines if wanted in line.text.lower()]
    return lines


def last_lines(lines: list[LogLine]) -> list[LogLine]:
    """The last of them, as many as a page holds; the one that came last at any length."""
    first, characters = len(lines), 0
    while first and len(lines) - first < _MOST_LINES:
        characters += len(lines[first - 1].text)
        if characters > _MOST_CHARACTERS and first < len(lines):
            break
        first -= 1
    return lines[first:]


def steps_to_choose(job: JobView, chosen: LogFilter) -> list[Step]:
    """The steps to filter by: all, or in a large pipeline those with lines, and those around them."""
    steps = job.tree.steps
    if len(steps) <= _MOST_STEPS:
        return list(steps.values())
    told: dict[str, None] = {}
    for line in reversed(job.log_lines):
        for key in (*job.tree.way_to(line.step), line.step) if line.step else ():
            told.setdefault(key)
        if len(told) >= _MOST_STEPS:
            break
    wanted = {*told, job.tree.find(chosen.step)}
    return [step for key, step in steps.items() if key in wanted]
