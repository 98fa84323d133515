"""The log of a job, filtered by step, severity and text."""

from __future__ import annotations

import attrs
from beam_runner_jobservices import Importance

from .job_view import JobView, LogLine


@attrs.frozen
class LogFilter:
    """What lines are wanted: those of `step` and what is in it, at least as important as `severity`
    (a name of `Importance`), that contain `text`, whatever its case; empty asks for nothing.
    """

    step: str = ""
    severity: str = ""
    text: str = ""

    @property
    def is_set(self) -> bool:
        return bool(self.step or self.severity or self.text)


def filtered(job: JobView, chosen: LogFilter) -> list[LogLine]:
    """The lines that a filter leaves, oldest first."""
    lines = job.log_lines
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
