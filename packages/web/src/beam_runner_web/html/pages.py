"""The pages: the template of each page, and the values for the template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from starlette.datastructures import QueryParams

from beam_runner_web.html.rendering import whole_number
from beam_runner_web.settings import WebSettings
from beam_runner_web.watch.threads import Thread
from beam_runner_web.watch.watching import Watches

from .graph_view import picture
from .job_list import STATES, job_list, lines_of
from .job_view import JobView
from .logs import LogFilter, last_lines, steps_to_choose

Values = dict[str, Any]

_ROWS = 250
_STAGES = 25
_METRICS = 400
_DIGITS = 15
"""More digits than any number of a bundle has."""


@attrs.frozen
class JobPage:
    """A page of a job; `values` returns the values for the template, in addition to the job."""

    template: str
    label: str
    values: Callable[[JobView, QueryParams], Values]


def _overview(job: JobView, query: QueryParams) -> Values:
    opened = query.getlist("open") if "open" in query else None
    seen = job.view(opened)
    step = query.get("step", "")
    if step not in job.tree.steps:
        step = ""
    sort = query.get("sort", "")
    rows = job.rows(seen, sort)
    first = _first(query, len(rows))
    return {
        "seen": seen,
        "chosen_open": opened,
        "step": step,
        "toggled": lambda key: sorted(seen.opened ^ {key}) or [""],
        "panel": job.row(step) if step else None,
        "sort": sort,
        "rows": rows[first : first + _ROWS],
        "first": first,
        "total": len(rows),
        "step_length": _ROWS,
        "graph": picture(job, seen),
        "linked": True,
    }


def _first(query: QueryParams, total: int) -> int:
    """Returns the start of a part of a long list, from the address."""
    first = whole_number(query.get("from", ""), 0)
    return first if first < total else 0


def _part(name: str, found: Sequence[object], query: QueryParams, length: int) -> Values:
    """Returns a part of a long list by its name, and the position of the part."""
    first = _first(query, len(found))
    part = found[first : first + length]
    return {name: part, "first": first, "total": len(found), "length": length}


def _stages(job: JobView, query: QueryParams) -> Values:
    return _part("stages", job.stages, query, _STAGES)


def _metrics(job: JobView, query: QueryParams) -> Values:
    return _part("metrics", job.figures.user, query, _METRICS)


def _logs(job: JobView, query: QueryParams) -> Values:
    chosen = LogFilter(
        step=query.get("step", ""),
        severity=query.get("severity", "").upper(),
        text=query.get("q", ""),
        before=query.get("before", ""),
    )
    found = last_lines(job, chosen)
    return {"chosen": chosen, "found": found, "steps": steps_to_choose(job, chosen, found)}


def _nothing(job: JobView, query: QueryParams) -> Values:
    return {}


JOB_PAGES: Mapping[str, JobPage] = {
    "": JobPage("job.html", "Overview", _overview),
    "stages": JobPage("stages.html", "Stages", _stages),
    "now": JobPage("now.html", "Now", _nothing),
    "logs": JobPage("logs.html", "Log", _logs),
    "errors": JobPage("errors.html", "Errors", _nothing),
    "metrics": JobPage("metrics.html", "Metrics", _metrics),
    "environment": JobPage("environment.html", "Environment", _nothing),
}
"""The pages of a job by the last part of their address."""


class Pages:
    """The current content of each page. Blocking calls; thread-safe."""

    def __init__(self, watches: Watches, settings: WebSettings) -> None:
        self.watches = watches
        self._settings = settings

    def _common(self) -> Values:
        return {
            "endpoint": self._settings.job_endpoint,
            "read_only": self._settings.read_only,
            "live": True,
        }

    def jobs(self, query: QueryParams) -> Values:
        """Returns the list of jobs.

        Raises:
            JobApiError: the server doesn't answer.
        """
        state, name = query.get("state", ""), query.get("name", "")
        page = query.get("page", "1")
        lines = lines_of(self.watches.client)
        found = job_list(lines, state, name, whole_number(page, 1))
        return {
            **self._common(),
            "jobs": found,
            "state": state,
            "name": name,
            "filters": STATES,
            "any_jobs": bool(lines),
            "title": "Jobs",
        }

    def view(self, job_id: str) -> JobView:
        """Returns the current state of a job.

        Raises:
            JobApiError: the job doesn't exist, or the server doesn't answer.
        """
        watch = self.watches.get(job_id)
        return JobView(watch.snapshot(), watch.logs)

    def stacks(self, job_id: str, query: QueryParams) -> Values:
        """Returns the current stacks of a job's worker threads.

        Raises:
            JobApiError: UNIMPLEMENTED if the server has no such call; otherwise as `view`.
        """
        found = self.watches.client.stacks(job_id)
        everything = "all" in query
        return {
            **self.job(job_id, "now", query),
            "live": False,
            "all": everything,
            "threads": [one for one in map(Thread.of, found) if everything or one.is_users],
            "total": len(found),
        }

    def bundle(self, job_id: str, query: QueryParams) -> Values:
        """Everything that the journal of a job says about the bundle that the address names, if it names one.

        Raises:
            JobApiError: UNIMPLEMENTED where the server keeps no journal; else as `view`.
        """
        number = query.get("number", "").strip()
        is_number = number.isdecimal() and len(number) <= _DIGITS
        story = self.watches.client.story(job_id, int(number)) if is_number else None
        return {
            **self.job(job_id, "stages", query),
            "live": False,
            "title": f"Bundle {number}" if is_number else "Bundles",
            "number": number if is_number else "",
            "is_wrong": bool(number) and not is_number,
            "story": story,
        }

    def job(self, job_id: str, page: str, query: QueryParams) -> Values:
        """Returns the content of a page of a job. Raises the same errors as `view`."""
        view = self.view(job_id)
        return {
            **self._common(),
            "job": view,
            "tabs": JOB_PAGES,
            "tab": page,
            "title": f"{JOB_PAGES[page].label} · {view.name}" if page in JOB_PAGES else view.name,
            **(JOB_PAGES[page].values(view, query) if page in JOB_PAGES else {}),
        }
