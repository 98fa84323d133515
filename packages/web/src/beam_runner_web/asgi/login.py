"""Login page for servers that require a token. The user enters the token once."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from beam_runner_web.html.rendering import Renderer
from beam_runner_web.settings import WebSettings

from .security import COOKIE, PageAccess

_LONGEST_BODY = 4_096


class LoginPage:
    """ASGI application with a login form. If the token is correct, it sets a cookie."""

    def __init__(self, renderer: Renderer, settings: WebSettings) -> None:
        self._renderer = renderer
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await (
            self._check_submitted_token(request) if request.method == "POST" else self._show_form()
        )
        await response(scope, receive, send)

    async def _show_form(self, *, wrong: bool = False) -> Response:
        values = {
            "title": "Token",
            "endpoint": self._settings.job_endpoint,
            "read_only": True,
            "live": False,
            "wrong": wrong,
        }
        return HTMLResponse(self._renderer.render_page("login.html", values), 403 if wrong else 200)

    async def _check_submitted_token(self, request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _LONGEST_BODY:
                return await self._show_form(wrong=True)
        shown = _read_token_field(body)
        if PageAccess(self._settings.token, self._settings.users).find_user(shown) is None:
            return await self._show_form(wrong=True)
        response = RedirectResponse(self._renderer.make_link("/").unescape(), 303)
        response.set_cookie(
            COOKIE,
            shown,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
            path=self._settings.root_path or "/",
        )
        return response


def _read_token_field(body: bytes) -> str:
    fields = parse_qs(body.decode("utf-8", "replace"))
    return fields.get("token", [""])[0].strip()
