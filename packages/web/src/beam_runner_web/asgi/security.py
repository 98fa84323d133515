"""Access control around the application, and the security headers of each answer.

A page of another site must not be able to end jobs. It must also not be able to read jobs through a
host name that resolves to this machine (DNS rebinding). The browser must never run users' texts as
a script.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beam_runner_web.asgi.health import HEALTH_PATHS
from beam_runner_web.settings import LOOPBACK

COOKIE = "beam_web_token"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN_PATHS = ("/login", "/static/")
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class RequestGuard:
    """ASGI middleware that refuses forbidden requests before the application handles them.

    - 421 for a Host header that is neither this machine nor one of `allowed_hosts`.
    - 403 for an unsafe method from another origin, or in `read_only` mode.
    - 401 for a request without `token`, if one is set. For pages, the answer is a redirect to the
      login page.

    `HEALTH_PATHS` accept each host name and need no token, because probes send the address of a pod.
    """

    def __init__(
        self, app: ASGIApp, allowed_hosts: Iterable[str], token: str, *, read_only: bool
    ) -> None:
        self._app = app
        self._hosts = LOOPBACK | {host.lower() for host in allowed_hosts}
        self._token = token
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    if name not in headers:
                        headers[name] = value
                headers.setdefault("cache-control", _choose_cache_control(scope))
            await send(message)

        refusal = self._find_refusal(scope)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _find_refusal(self, scope: Scope) -> Response | None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in HEALTH_PATHS and scope["method"] in _SAFE_METHODS:
            return None
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if _extract_host_name(host) not in self._hosts:
            text = (
                f"This server doesn't accept the host name {_extract_host_name(host)!r}; start"
                " the server with --web-allowed-host."
            )
            return PlainTextResponse(text, 421)
        if scope["method"] not in _SAFE_METHODS:
            if not _is_same_origin(headers, host):
                return PlainTextResponse("Rejected: the request comes from another site.", 403)
            if self._read_only and path != "/login":
                return PlainTextResponse(
                    "Rejected: this server is read-only (--web-read-only).", 403
                )
        if self._token and not path.startswith(_OPEN_PATHS) and not self._has_valid_token(headers):
            if path.startswith(("/api/", "/metrics")) or scope["method"] not in _SAFE_METHODS:
                answer = {"www-authenticate": "Bearer"}
                return PlainTextResponse("This server requires a token.", 401, answer)
            return Response(
                status_code=303, headers={"location": f"{scope.get('root_path', '')}/login"}
            )
        return None

    def _has_valid_token(self, headers: Headers) -> bool:
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            shown = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        return tokens_match(shown.strip(), self._token)


def _choose_cache_control(scope: Scope) -> str:
    """Returns the `Cache-Control` header. Browsers cache resources with a version in the address
    forever, and nothing else.
    """
    versioned = "/static/" in scope["path"] and scope["query_string"].startswith(b"v=")
    return "public, max-age=31536000, immutable" if versioned else "no-store"


def tokens_match(shown: str, token: str) -> bool:
    """Returns whether a received token equals the required token, in constant time."""
    return hmac.compare_digest(shown.encode(), token.encode())


def _is_same_origin(headers: Headers, host: str) -> bool:
    """Returns whether a request is from the same origin, with the rules of Go's
    `http.CrossOriginProtection`.

    Browsers send the origin of a request. A client that sends none is not a browser, so it has no
    cookies to misuse.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == host.lower()


def _extract_host_name(host: str) -> str:
    """Returns the host without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
