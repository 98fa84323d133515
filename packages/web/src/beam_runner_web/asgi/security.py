"""Access control for all requests, and security headers for all responses.

A page of another site must not be able to end jobs. It must also not be able to read jobs through a
host name that resolves to this machine (DNS rebinding). The browser must never run users' texts as
a script.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from urllib.parse import urlsplit

import attrs
from beam_runner_jobservices.method_rights import describe_missing_right
from beam_runner_jobservices.users import Right, User
from beam_runner_jobservices.users_file import UsersFile
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


@attrs.frozen
class PageAccess:
    """Tokens that give access to the pages: `token`, with all rights, and the tokens of `users`."""

    token: str = attrs.field(default="", repr=False)
    users: UsersFile | None = attrs.field(default=None, repr=False)

    @property
    def is_open(self) -> bool:
        """Whether the pages require no token."""
        return not self.token and self.users is None

    def find_user(self, shown: str) -> User | None:
        """Returns the user of a token; None if the token is unknown."""
        if self.token and hmac.compare_digest(shown.encode(), self.token.encode()):
            return User("", frozenset(Right), b"")
        return None if self.users is None else self.users.find_user(shown)


class RequestGuard:
    """ASGI middleware that refuses forbidden requests before the application handles them.

    - 421 for a Host header that is neither this machine nor one of `allowed_hosts`.
    - 403 for an unsafe method from another origin, or in `read_only` mode.
    - 401 for a request without a valid token, if `access` requires one. For pages, the answer is a
      redirect to the login page.
    - 403 for a request beyond the rights of its user.

    Requests for `HEALTH_PATHS` may have any Host header and need no token, because probes use the
    address of a pod.
    """

    def __init__(
        self, app: ASGIApp, allowed_hosts: Iterable[str], access: PageAccess, *, read_only: bool
    ) -> None:
        self._app = app
        self._hosts = LOOPBACK | {host.lower() for host in allowed_hosts}
        self._access = access
        self._read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_security_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    if name not in headers:
                        headers[name] = value
                headers.setdefault("cache-control", _choose_cache_control(scope))
            await send(message)

        refusal = self._find_refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_security_headers)

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
        return None if path.startswith(_OPEN_PATHS) else self._find_token_refusal(scope, path)

    def _find_token_refusal(self, scope: Scope, path: str) -> Response | None:
        if self._access.is_open:
            return None
        is_safe = scope["method"] in _SAFE_METHODS
        user = self._access.find_user(_extract_token(Headers(scope=scope)))
        if user is None:
            if path.startswith(("/api/", "/metrics")) or not is_safe:
                answer = {"www-authenticate": "Bearer"}
                return PlainTextResponse("This server requires a token.", 401, answer)
            return Response(
                status_code=303, headers={"location": f"{scope.get('root_path', '')}/login"}
            )
        if not user.sees_all_jobs:
            # Refuse users who may see only their own jobs, because the pages read jobs with a token
            # that has the right to read all jobs.
            text = (
                f"The user {user.name!r} sees only own jobs, but the pages show all jobs: use the"
                " commands `jobs`, `describe` and `logs`."
            )
            return PlainTextResponse(text, 403)
        right = Right.READ if is_safe else Right.CANCEL
        if right in user.rights:
            return None
        assert self._access.users is not None
        return PlainTextResponse(describe_missing_right(user, right, self._access.users), 403)


def _extract_token(headers: Headers) -> str:
    """Returns the token of a request, or an empty text."""
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        shown = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
    return shown.strip()


def _choose_cache_control(scope: Scope) -> str:
    """Returns the `Cache-Control` header. Browsers cache resources with a version in the address
    forever, and nothing else.
    """
    versioned = "/static/" in scope["path"] and scope["query_string"].startswith(b"v=")
    return "public, max-age=31536000, immutable" if versioned else "no-store"


def _is_same_origin(headers: Headers, host: str) -> bool:
    """Returns whether a request is from the same origin, by the same rules as Go's
    `http.CrossOriginProtection`.

    Browsers send the origin of a request. A client that doesn't send it isn't a browser, so it has
    no cookies that another site could misuse.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == host.lower()


def _extract_host_name(host: str) -> str:
    """Returns the host name in a Host header, without the port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
