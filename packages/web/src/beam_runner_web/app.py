"""ASGI application of the web interface: its URLs and request handlers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_model.readiness import Readiness
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from .asgi.api import ScriptApi
from .asgi.events import EventStreams
from .asgi.health import HealthProbes
from .asgi.login import LoginPage
from .asgi.security import PageAccess, RequestGuard
from .html.pages import JOB_PAGES, PageContents, Values
from .html.rendering import STATIC, Renderer
from .html.report import render_report
from .settings import WebSettings
from .watch.watching import JobFollowers

_CALLS_AT_ONCE = 8
_TIDY_SECONDS = 5.0
_STATUS = {
    "NOT_FOUND": 404,
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 409,
    "UNIMPLEMENTED": 501,
    "PERMISSION_DENIED": 403,
    "UNAUTHENTICATED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "DEADLINE_EXCEEDED": 504,
    "UNAVAILABLE": 503,
}
_Found = TypeVar("_Found")
_Answer = Callable[[Request], Response]
"""Type of a request handler, which may block."""


def get_http_status(error: JobApiError) -> int:
    """Returns the HTTP status for an error of the job server."""
    return _STATUS.get(error.code, 502)


def create_app(
    settings: WebSettings,
    connect: Callable[[], JobClient] | None = None,
    check_readiness: Callable[[], Readiness] = lambda: Readiness.READY,
) -> Starlette:
    """Returns the web interface as an ASGI application.

    Args:
        settings: see `WebSettings`.
        connect: function that returns a client of the job server.
        check_readiness: function that returns whether the job server can run jobs; None if this
            process can't know it.
    """
    target = settings.job_target or settings.job_endpoint
    site = _RequestHandlers(
        settings,
        connect or (lambda: JobClient(target, timeout=20.0, credentials=settings.credentials)),
        check_readiness,
    )
    guard = Middleware(
        RequestGuard,
        settings.allowed_hosts,
        PageAccess(settings.token, settings.users),
        read_only=settings.read_only,
    )
    return Starlette(
        routes=site.list_routes(),
        middleware=[guard],
        lifespan=site.manage_lifespan,
        exception_handlers={
            JobApiError: site.handle_job_server_error,
            HTTPException: site.handle_http_error,
            Exception: site.handle_unexpected_error,
        },
    )


class _RequestHandlers:
    """The request handlers of all pages. Blocking calls run in a small pool of threads."""

    def __init__(
        self,
        settings: WebSettings,
        connect: Callable[[], JobClient],
        check_readiness: Callable[[], Readiness],
    ) -> None:
        self._settings = settings
        self._watches = JobFollowers(connect)
        self._pages = PageContents(self._watches, settings)
        self._renderer = Renderer(settings.root_path)
        self._limiter = CapacityLimiter(_CALLS_AT_ONCE)
        self._events = EventStreams(self._pages, self._renderer, self._run_in_thread)
        self._api = ScriptApi(self._pages)
        self._login = LoginPage(self._renderer, settings)
        self._health = HealthProbes(self._watches, check_readiness)

    def list_routes(self) -> list[Route | Mount]:
        pages = {
            f"/jobs/{{job_id}}/{name}".rstrip("/"): self._make_page_handler(name)
            for name in JOB_PAGES
        }
        answers: dict[str, _Answer] = {
            "/": self._show_job_list,
            **pages,
            "/jobs/{job_id}/end": self._show_end_form,
            "/jobs/{job_id}/stacks": self._show_stacks,
            "/jobs/{job_id}/bundle": self._show_bundle,
            "/jobs/{job_id}/report.html": self._download_report,
            **self._api.list_handlers(),
            "/readyz": self._health.answer_readiness,
        }
        return [
            *(Route(path, self._make_threaded_handler(answer)) for path, answer in answers.items()),
            Route("/healthz", self._health.answer_health),
            Route("/events", self._events.stream_job_list),
            Route("/jobs/{job_id}/events", self._events.stream_job_page),
            Route(
                "/jobs/{job_id}/cancel",
                self._make_threaded_handler(self._cancel_job),
                methods=["POST"],
            ),
            Route(
                "/jobs/{job_id}/drain",
                self._make_threaded_handler(self._drain_job),
                methods=["POST"],
            ),
            Route("/login", self._login, methods=["GET", "POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]

    @contextlib.asynccontextmanager
    async def manage_lifespan(self, app: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._close_unused_watches)
            yield
            tasks.cancel_scope.cancel()
        await to_thread.run_sync(self._watches.close)

    async def _close_unused_watches(self) -> None:
        while True:
            await anyio.sleep(_TIDY_SECONDS)
            await self._run_in_thread(self._watches.close_unused)

    async def _run_in_thread(self, call: Callable[..., _Found], *arguments: Any) -> _Found:
        return await to_thread.run_sync(call, *arguments, limiter=self._limiter)

    def _make_threaded_handler(self, answer: _Answer) -> Callable[[Request], Awaitable[Response]]:
        """Returns a handler that runs a blocking call in a thread."""

        async def handle_in_thread(request: Request) -> Response:
            return await self._run_in_thread(answer, request)

        return handle_in_thread

    def _render_html(self, template: str, values: Values, status: int = 200) -> HTMLResponse:
        return HTMLResponse(self._renderer.render_page(template, values), status)

    def _show_job_list(self, request: Request) -> Response:
        return self._render_html("jobs.html", self._pages.list_jobs(request.query_params))

    def _make_page_handler(self, name: str) -> _Answer:
        def show_page(request: Request) -> Response:
            values = self._pages.show_job_page(
                request.path_params["job_id"], name, request.query_params
            )
            return self._render_html(JOB_PAGES[name].template, values)

        return show_page

    def _show_end_form(self, request: Request) -> Response:
        values = self._pages.show_job_page(
            request.path_params["job_id"], "end", request.query_params
        )
        return self._render_html("end.html", values)

    def _show_stacks(self, request: Request) -> Response:
        values = self._pages.show_stacks(request.path_params["job_id"], request.query_params)
        return self._render_html("stacks.html", values)

    def _show_bundle(self, request: Request) -> Response:
        values = self._pages.show_bundle(request.path_params["job_id"], request.query_params)
        return self._render_html("bundle.html", values)

    def _cancel_job(self, request: Request) -> Response:
        return self._request_job_end(request, "cancelled", self._watches.client.cancel_job)

    def _drain_job(self, request: Request) -> Response:
        return self._request_job_end(request, "drained", self._watches.client.drain_job)

    def _request_job_end(self, request: Request, what: str, call: Callable[[str], Any]) -> Response:
        job_id = request.path_params["job_id"]
        state = self._watches.client.get_state(job_id).state
        if state.is_terminal:
            text = f"The job has already finished ({state.name}) and can't be {what}."
            raise HTTPException(409, text)
        call(job_id)
        return RedirectResponse(self._renderer.make_link("/jobs/{}", job_id).unescape(), 303)

    def _download_report(self, request: Request) -> Response:
        view = self._pages.view_job(request.path_params["job_id"])
        name = "".join(c if c.isalnum() else "-" for c in view.id if c.isascii())
        disposition = {"content-disposition": f'attachment; filename="{name}.html"'}
        return HTMLResponse(render_report(self._renderer, view), headers=disposition)

    def _render_error(self, request: Request, status: int, title: str, text: str) -> Response:
        if request.url.path.removeprefix(self._settings.root_path).startswith("/api/"):
            return self._api.make_error_response(status, text)
        values = {
            "title": title,
            "text": text,
            "endpoint": self._settings.job_endpoint,
            "read_only": self._settings.read_only,
            "live": False,
            "retry": status in (502, 503, 504),
        }
        return self._render_html("error.html", values, status)

    async def handle_job_server_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, JobApiError)
        if error.code == "NOT_FOUND" and "job_id" in request.path_params:
            await self._run_in_thread(self._watches.close_follower, request.path_params["job_id"])
        title = {
            "NOT_FOUND": "The job doesn't exist",
            "UNAVAILABLE": "The job server doesn't respond",
            "UNIMPLEMENTED": "This job server doesn't support this action",
        }.get(error.code, "The job server rejected the request")
        return self._render_error(request, get_http_status(error), title, error.text)

    async def handle_http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        titles = {
            404: "The page doesn't exist",
            409: "The request came too late",
            405: "Not that way",
        }
        title = titles.get(error.status_code, "The request failed")
        response = self._render_error(request, error.status_code, title, error.detail)
        response.headers.update(error.headers or {})
        return response

    async def handle_unexpected_error(self, request: Request, error: Exception) -> Response:
        return PlainTextResponse(f"The web interface failed: {type(error).__name__}", 500)
