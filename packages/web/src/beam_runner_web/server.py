"""HTTP server of the web interface."""

from __future__ import annotations

import asyncio
import errno
import logging
import selectors
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from beam_runner_model.readiness import Readiness

from .settings import DEFAULT_PORT, LOOPBACK, WebSettings

if TYPE_CHECKING:
    import uvicorn

_LOOK_SECONDS = 0.01
_STOP_SECONDS = 5.0

log = logging.getLogger(__name__)


class WebError(RuntimeError):
    """Raised if the pages can't be served; the text says why."""


class WebServer:
    """HTTP server of the web interface. The constructor opens the port. The first request loads the
    pages.

    Args:
        settings: see `WebSettings`.
        check_readiness: see `create_app`.

    Raises:
        WebError: the port is in use, or other machines could send requests without a token.
    """

    def __init__(
        self,
        settings: WebSettings,
        check_readiness: Callable[[], Readiness] = lambda: Readiness.READY,
    ) -> None:
        if settings.host not in LOOPBACK and not settings.requires_token:
            raise WebError(
                f"other machines can reach {settings.host}, so the web pages need a"
                " token: set --web-token-file"
            )
        try:
            self._socket = _open_listening_socket(settings.host, settings.port)
        except OSError as error:
            reason = error.strerror or str(error)
            advice = "; set --web-port to another port, or to 0 for a free port"
            raise WebError(
                f"Can't listen at {settings.host}:{settings.port}: {reason}"
                f"{advice if error.errno == errno.EADDRINUSE else ''}"
            ) from error
        port = self._socket.getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.url = f"http://{host}:{port}{settings.root_path}/"
        """The address of the list of jobs."""
        self._settings = settings
        self._check_readiness = check_readiness
        self._server: uvicorn.Server | None = None
        self._stopping = threading.Event()
        self._woken, self._waking = socket.socketpair()
        self._thread: threading.Thread | None = None

    def run(self, announce: Callable[[], None]) -> None:
        """Serves until a signal stops the server.

        Args:
            announce: called when the server handles signals and answers requests.
        """
        asyncio.run(self._serve_and_announce(announce))

    async def _serve_and_announce(self, announce: Callable[[], None]) -> None:
        server = self._load_pages()
        serving = asyncio.create_task(server.serve([self._socket]))
        while not (server.started or serving.done()):
            await asyncio.sleep(_LOOK_SECONDS)
        if not serving.done():
            announce()
        await serving

    def start(self) -> None:
        """Serves in a separate thread. Until the thread has loaded the pages, requests wait."""
        self._thread = threading.Thread(target=self._serve, name="beam-web", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops serving; may be called more than once."""
        self._stopping.set()
        self._waking.close()
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
        self._woken.close()
        self._socket.close()

    def _serve(self) -> None:
        try:
            self._wait_for_request()
            if not self._stopping.is_set():
                self._server = self._load_pages()
            if self._server is not None and not self._stopping.is_set():
                self._server.run([self._socket])
        except Exception:
            log.exception("Can't serve the web pages at %s", self.url)

    def _wait_for_request(self) -> None:
        """Waits for the first request, or for a call of `stop`."""
        with selectors.DefaultSelector() as selector:
            for one in (self._socket, self._woken):
                selector.register(one, selectors.EVENT_READ)
            selector.select()

    def _load_pages(self) -> uvicorn.Server:
        """Imports and creates the pages, which takes 0.5 s of CPU time."""
        import uvicorn

        from .app import create_app

        config = uvicorn.Config(
            create_app(self._settings, check_readiness=self._check_readiness),
            log_config=None,
            access_log=False,
            root_path=self._settings.root_path,
            # Don't wait for open event streams at the shutdown, because they never end.
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        return uvicorn.Server(config)


def _open_listening_socket(host: str, port: int | None) -> socket.socket:
    if port is None:
        try:
            return _open_listening_socket(host, DEFAULT_PORT)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return _open_listening_socket(host, 0)
    (family, kind, protocol, _, address), *_ = sorted(
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE),
        key=lambda found: found[0] != socket.AF_INET,
    )
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # Listen before the server runs, because a user can send a request as soon as the address is
        # printed.
        listening.listen()
    except BaseException:
        listening.close()
        raise
    return listening
