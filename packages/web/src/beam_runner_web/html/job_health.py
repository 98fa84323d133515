"""Health and progress of running jobs, for the list of jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import attrs
from beam_runner_jobservices.errors import JobApiError

from beam_runner_web.causes.facts import CauseSeverity

from .job_list import JobHealth, JobListLine
from .job_view import JobView

_MOST_CHECKED = 12
_BUDGET_SECONDS = 1.0
"""Time after which a list leaves out the health of further jobs, until its next update."""


def add_job_health(
    lines: Iterable[JobListLine], view_job: Callable[[str], JobView]
) -> tuple[JobListLine, ...]:
    """Returns the lines with the health of the first running jobs. Checks take a limited time, so that
    a server with many jobs answers fast.
    """
    until = time.monotonic() + _BUDGET_SECONDS
    found, checked = [], 0
    for line in lines:
        is_due = not line.state.is_terminal and checked < _MOST_CHECKED
        if is_due and time.monotonic() < until:
            checked += 1
            line = attrs.evolve(line, health=_check_job(line.id, view_job))
        found.append(line)
    return tuple(found)


def _check_job(job_id: str, view_job: Callable[[str], JobView]) -> JobHealth | None:
    """Returns the health of a job; None if the job ended or the server doesn't answer."""
    try:
        view = view_job(job_id)
    except JobApiError:
        return None
    worst = view.causes[0]
    is_well = worst.weight >= CauseSeverity.GOOD
    return JobHealth(
        "good" if is_well else worst.weight.name.lower(),
        "" if is_well else worst.text,
        " · ".join(view.progress_parts),
    )
