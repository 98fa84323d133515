"""Live updates of pages: each open page receives its changed parts by server-sent events.

The same templates render the page and its parts, so an updated page equals a reloaded page. The
event `parts` is a JSON object with HTML by element id. The event `end` means that the page won't
change anymore. The event `gone` means that the server doesn't know the job, for example after a
restart without state.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from beam_runner_jobservices.errors import JobApiError
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from beam_runner_web.html.pages import JOB_PAGES, PageContents
from beam_runner_web.html.rendering import Renderer

MOST_STREAMS = 64
_LIST_PAUSE_SECONDS = 2.0
_AWAY_PAUSE_SECONDS = 2.0
_KEEP_ALIVE_SECONDS = 15.0
_HEADERS = {"x-accel-buffering": "no"}

_Rendered = tuple[dict[str, str], float, bool]


class EventStreams:
    """Server of event streams for open pages, at most `MOST_STREAMS` at the same time. Pages beyond
    the limit poll for updates.

    `in_thread` runs blocking calls.
    """

    def __init__(
        self, pages: PageContents, renderer: Renderer, in_thread: Callable[..., Awaitable[Any]]
    ) -> None:
        self._pages = pages
        self._renderer = renderer
        self._in_thread = in_thread
        self._open = 0

    async def stream_job_list(self, request: Request) -> Response:
        """Returns the event stream of the page with the list of jobs."""

        def render_parts() -> _Rendered:
            values = self._pages.list_jobs(request.query_params)
            return self._renderer.render_live_parts("jobs.html", values), _LIST_PAUSE_SECONDS, False

        return await self._open_stream(request, render_parts)

    async def stream_job_page(self, request: Request) -> Response:
        """Returns the event stream of a page of a job. The request parameter `page` names the page."""
        job_id = request.path_params["job_id"]
        page = request.query_params.get("page", "")
        if page not in JOB_PAGES:
            return PlainTextResponse("The page doesn't exist.", 404)

        def render_parts() -> _Rendered:
            values = self._pages.show_job_page(job_id, page, request.query_params)
            job = values["job"]
            over = job.state.is_terminal and not job.snapshot.away
            parts = self._renderer.render_live_parts(JOB_PAGES[page].template, values)
            return parts, self._pages.watches.get_follower(job_id).pause, over

        return await self._open_stream(request, render_parts)

    async def _open_stream(self, request: Request, render: Callable[[], _Rendered]) -> Response:
        """Returns a stream with the changed parts of a page. If the request has the parameter `once`,
        returns all parts, for pages that poll.
        """
        if "once" in request.query_params:
            parts, _, over = await self._in_thread(render)
            return JSONResponse({"parts": parts, "over": over})
        if self._open >= MOST_STREAMS:
            return PlainTextResponse(
                "Too many live pages are open; close some of them, and reload this page.", 503
            )
        return StreamingResponse(
            self._send_changes(render), media_type="text/event-stream", headers=_HEADERS
        )

    async def _send_changes(self, render: Callable[[], _Rendered]) -> AsyncIterator[str]:
        self._open += 1
        sent: dict[str, str] = {}
        said = 0.0
        clock = asyncio.get_running_loop().time
        try:
            yield "retry: 2000\n\n"
            while True:
                try:
                    parts, pause, over = await self._in_thread(render)
                except JobApiError as error:
                    if error.code == "NOT_FOUND":
                        yield _format_event("gone", error.text)
                        return
                    yield _format_event("away", error.text)
                    await asyncio.sleep(_AWAY_PAUSE_SECONDS)
                    continue
                changed = {key: html for key, html in parts.items() if sent.get(key) != html}
                if changed:
                    yield _format_event("parts", changed)
                    sent, said = parts, clock()
                elif clock() - said > _KEEP_ALIVE_SECONDS:
                    yield ": still here\n\n"
                    said = clock()
                if over:
                    yield _format_event("end", "")
                    return
                await asyncio.sleep(pause)
        finally:
            self._open -= 1


def _format_event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
