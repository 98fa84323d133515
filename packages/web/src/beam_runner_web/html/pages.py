"""Templates of the pages, and the values for each template."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from starlette.datastructures import QueryParams

from beam_runner_web.html.rendering import parse_whole_number
from beam_runner_web.settings import WebSettings
from beam_runner_web.watch.threads import WorkerThread
from beam_runner_web.watch.watching import JobFollowers

from .graph_view import draw_graph
from .job_health import add_job_health
from .job_list import STATES, filter_jobs, read_job_lines
from .job_view import JobView
from .logs import LogFilter, list_filter_steps, read_last_log_lines

Values = dict[str, Any]

_ROWS = 250
_STAGES = 25
_METRICS = 400
_DIGITS = 15
"""Maximum number of digits of a bundle number in a URL."""


@attrs.frozen
class JobPage:
    """A page of a job; `values` returns the values for the template, in addition to the job."""

    template: str
    label: str
    values: Callable[[JobView, QueryParams], Values]


def _make_overview_values(job: JobView, query: QueryParams) -> Values:
    opened = query.getlist("open") if "open" in query else None
    seen = job.make_graph_view(opened)
    step = query.get("step", "")
    if step not in job.tree.steps:
        step = ""
    sort = query.get("sort", "")
    rows = job.make_step_rows(seen, sort)
    first = _read_first_row(query, len(rows))
    return {
        "seen": seen,
        "chosen_open": opened,
        "step": step,
        "toggled": lambda key: sorted(seen.opened ^ {key}) or [""],
        "panel": job.make_step_row(step) if step else None,
        "sort": sort,
        "rows": rows[first : first + _ROWS],
        "first": first,
        "total": len(rows),
        "step_length": _ROWS,
        "graph": draw_graph(job, seen, step),
        "linked": True,
    }


def _read_first_row(query: QueryParams, total: int) -> int:
    """Returns the index of the first shown row of a long list, from the URL's query."""
    first = parse_whole_number(query.get("from", ""), 0)
    return first if first < total else 0


def _slice_list(name: str, found: Sequence[object], query: QueryParams, length: int) -> Values:
    """Returns the part of a long list that the page shows, and the position of this part, as
    template values.
    """
    first = _read_first_row(query, len(found))
    part = found[first : first + length]
    return {name: part, "first": first, "total": len(found), "length": length}


def _make_stages_values(job: JobView, query: QueryParams) -> Values:
    return _slice_list("stages", job.stages, query, _STAGES)


def _make_metrics_values(job: JobView, query: QueryParams) -> Values:
    return _slice_list("metrics", job.figures.user, query, _METRICS)


def _make_log_values(job: JobView, query: QueryParams) -> Values:
    chosen = LogFilter(
        step=query.get("step", ""),
        severity=query.get("severity", "").upper(),
        text=query.get("q", ""),
        before=query.get("before", ""),
    )
    found = read_last_log_lines(job, chosen)
    return {"chosen": chosen, "found": found, "steps": list_filter_steps(job, chosen, found)}


def _make_empty_values(job: JobView, query: QueryParams) -> Values:
    return {}


JOB_PAGES: Mapping[str, JobPage] = {
    "": JobPage("job.html", "Overview", _make_overview_values),
    "stages": JobPage("stages.html", "Stages", _make_stages_values),
    "now": JobPage("now.html", "Now", _make_empty_values),
    "logs": JobPage("logs.html", "Log", _make_log_values),
    "errors": JobPage("errors.html", "Errors", _make_empty_values),
    "metrics": JobPage("metrics.html", "Metrics", _make_metrics_values),
    "environment": JobPage("environment.html", "Environment", _make_empty_values),
}
"""The pages of a job, by the last part of the page's URL."""


class PageContents:
    """The current content of each page. Blocking calls; thread-safe."""

    def __init__(self, watches: JobFollowers, settings: WebSettings) -> None:
        self.watches = watches
        self._settings = settings

    def _make_common_values(self) -> Values:
        return {
            "endpoint": self._settings.job_endpoint,
            "read_only": self._settings.read_only,
            "live": True,
        }

    def list_jobs(self, query: QueryParams) -> Values:
        """Returns the list of jobs.

        Raises:
            JobApiError: the server doesn't answer.
        """
        state, name = query.get("state", ""), query.get("name", "")
        page = query.get("page", "1")
        sort, is_grouped = query.get("sort", ""), query.get("group") == "name"
        lines = read_job_lines(self.watches.client)
        number = parse_whole_number(page, 1)
        found = filter_jobs(lines, state, name, number, sort, is_grouped=is_grouped)
        found = attrs.evolve(found, lines=add_job_health(found.lines, self.view_job))
        return {
            **self._make_common_values(),
            "jobs": found,
            "state": state,
            "name": name,
            "sort": sort,
            "group": "name" if is_grouped else "",
            "now": time.time(),
            "filters": STATES,
            "any_jobs": bool(lines),
            "title": "Jobs",
        }

    def view_job(self, job_id: str) -> JobView:
        """Returns the current state of a job.

        Raises:
            JobApiError: the job doesn't exist, or the server doesn't answer.
        """
        watch = self.watches.get_follower(job_id)
        return JobView(watch.get_snapshot(), watch.query_logs)

    def show_stacks(self, job_id: str, query: QueryParams) -> Values:
        """Returns the current stacks of a job's worker threads.

        Raises:
            JobApiError: UNIMPLEMENTED if the server lacks the observation service; otherwise the
                errors of `view_job`.
        """
        found = self.watches.client.get_stacks(job_id)
        everything = "all" in query
        return {
            **self.show_job_page(job_id, "now", query),
            "live": False,
            "all": everything,
            "threads": [
                one
                for one in map(WorkerThread.from_stack, found)
                if everything or one.runs_user_code
            ],
            "total": len(found),
        }

    def show_bundle(self, job_id: str, query: QueryParams) -> Values:
        """Returns the history of the bundle whose number is in the URL; empty without a number.

        Raises:
            JobApiError: UNIMPLEMENTED if the server has no journals; otherwise the errors of
                `view_job`.
        """
        number = query.get("number", "").strip()
        is_number = number.isdecimal() and len(number) <= _DIGITS
        story = self.watches.client.get_bundle_history(job_id, int(number)) if is_number else None
        return {
            **self.show_job_page(job_id, "stages", query),
            "live": False,
            "title": f"Bundle {number}" if is_number else "Bundles",
            "number": number if is_number else "",
            "is_wrong": bool(number) and not is_number,
            "story": story,
        }

    def show_job_page(self, job_id: str, page: str, query: QueryParams) -> Values:
        """Returns the content of a page of a job. Raises the errors of `view_job`."""
        view = self.view_job(job_id)
        return {
            **self._make_common_values(),
            "job": view,
            "tabs": JOB_PAGES,
            "tab": page,
            "title": f"{JOB_PAGES[page].label} · {view.name}" if page in JOB_PAGES else view.name,
            **(JOB_PAGES[page].values(view, query) if page in JOB_PAGES else {}),
        }
