"""JSON API for scripts under `/api/v1`, and metrics in Prometheus' format."""

from __future__ import annotations

import enum
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from beam_runner_web.html.job_health import add_job_health
from beam_runner_web.html.job_list import JobListLine, read_job_lines
from beam_runner_web.html.job_view import JobView
from beam_runner_web.html.logs import LogFilter, read_all_log_lines
from beam_runner_web.html.pages import PageContents

from .prometheus import render_prometheus_metrics

_ENDED_SECONDS = 600.0
_MOST_ENDED = 20


class ScriptApi:
    """The JSON API for scripts. The package's README lists the parts of a job."""

    def __init__(self, pages: PageContents) -> None:
        self._pages = pages

    def list_handlers(self) -> Mapping[str, Callable[[Request], Response]]:
        """Returns the request handlers by URL path. Each handler is a blocking call."""
        return {
            "/api/v1/jobs": self._list_jobs,
            "/api/v1/jobs/{job_id}": self._describe_job,
            "/api/v1/jobs/{job_id}/{part}": self._get_job_resource,
            "/jobs/{job_id}/logs.txt": self._download_log,
            "/metrics": self._export_metrics,
        }

    def make_error_response(self, status: int, text: str) -> Response:
        """Returns an error as JSON."""
        return _make_json_response({"error": text}, status)

    def _list_jobs(self, request: Request) -> Response:
        lines = read_job_lines(self._pages.watches.client)
        found = add_job_health(reversed(lines), self._pages.view_job)
        return _make_json_response({"jobs": convert_to_json_values(found[::-1])})

    def _describe_job(self, request: Request) -> Response:
        return _make_json_response(
            summarize_job(self._pages.view_job(request.path_params["job_id"]))
        )

    def _get_job_resource(self, request: Request) -> Response:
        part = _PARTS.get(request.path_params["part"])
        if part is None:
            return self.make_error_response(
                404, f"unknown part; expected one of {', '.join(_PARTS)}"
            )
        found = part(self._pages.view_job(request.path_params["job_id"]), request)
        return _make_json_response({request.path_params["part"]: convert_to_json_values(found)})

    def _download_log(self, request: Request) -> Response:
        """Returns the log as a text file, filtered like the log page. Terminal escapes stay in the file."""
        view = self._pages.view_job(request.path_params["job_id"])
        lines = read_all_log_lines(view, _read_log_filter(request))
        text = "".join(
            f"{line.time} {line.severity} [{_find_step_name(view, line.step)}] {line.text}\n"
            for line in lines
        )
        headers = {"content-disposition": 'attachment; filename="log.txt"'}
        return PlainTextResponse(text.encode("utf-8", "replace"), headers=headers)

    def _export_metrics(self, request: Request) -> Response:
        lines = read_job_lines(self._pages.watches.client)
        views = [self._pages.view_job(job_id) for job_id in _list_scraped_jobs(lines)]
        return PlainTextResponse(render_prometheus_metrics((line.state for line in lines), views))


def _list_scraped_jobs(lines: Sequence[JobListLine]) -> list[str]:
    """Returns the ids of the jobs whose metrics `/metrics` contains: running jobs, and the latest jobs
    that ended in the last minutes, so that a scrape gets the final values of short jobs.
    """
    running = [line.id for line in lines if not line.state.is_terminal]
    since = time.time() - _ENDED_SECONDS
    ended = [
        line for line in lines if line.state.is_terminal and line.ended and line.ended >= since
    ]
    ended.sort(key=lambda line: line.ended or 0.0, reverse=True)
    return running + [line.id for line in ended[:_MOST_ENDED]]


def summarize_job(view: JobView) -> dict[str, Any]:
    """Returns the state, times, possible problems and options of a job as a mapping for JSON."""
    snapshot = view.snapshot
    return {
        "id": view.id,
        "name": view.name,
        "state": view.state.name,
        "streaming": view.streaming,
        "user": snapshot.user,
        "started": snapshot.started,
        "ended": snapshot.ended,
        "away": snapshot.away,
        "progress": convert_to_json_values(snapshot.progress),
        "progress_text": " · ".join(view.progress_parts),
        "costs": convert_to_json_values(view.costs),
        "causes": convert_to_json_values(view.causes),
        "options": dict(view.options),
    }


def _describe_steps(view: JobView, request: Request) -> list[dict[str, Any]]:
    rows = [view.make_step_row(key) for key in view.tree.steps]
    return [
        {
            "id": row.step.id,
            "name": row.step.name,
            "parent": row.step.parent,
            "state": row.state.value,
            "rate": row.rate,
            **attrs.asdict(row.figures),
        }
        for row in rows
    ]


def _read_log_filter(request: Request) -> LogFilter:
    query = request.query_params
    return LogFilter(query.get("step", ""), query.get("severity", "").upper(), query.get("q", ""))


def _find_step_name(view: JobView, step: str) -> str:
    return view.tree.steps[step].name if step else "job"


_PARTS: Mapping[str, Callable[[JobView, Request], Any]] = {
    "steps": _describe_steps,
    "stages": lambda view, request: view.figures.stages,
    "errors": lambda view, request: view.failures,
    "metrics": lambda view, request: view.figures.user,
    "bundles": lambda view, request: view.snapshot.execution and view.snapshot.execution.bundles,
    "waits": lambda view, request: view.snapshot.execution and view.snapshot.execution.waits,
    "failed-bundles": lambda view, request: (
        view.snapshot.execution and view.snapshot.execution.failed
    ),
    "logs": lambda view, request: read_all_log_lines(view, _read_log_filter(request)),
}


def convert_to_json_values(value: Any) -> Any:
    """Converts records to values that JSON supports."""
    if attrs.has(type(value)):
        fields = {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
        return convert_to_json_values(fields)
    if isinstance(value, enum.StrEnum):
        return value.value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): convert_to_json_values(inner) for key, inner in value.items()}
    if isinstance(value, frozenset):
        return sorted(convert_to_json_values(one) for one in value)
    if isinstance(value, list | tuple):
        return [convert_to_json_values(one) for one in value]
    return value


def _make_json_response(value: Any, status: int = 200) -> Response:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return Response(text, status, media_type="application/json")
