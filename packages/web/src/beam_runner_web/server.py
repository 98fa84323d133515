"""HTTP server of the web interface."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable

import uvicorn
from beam_runner_model.readiness import Readiness

from .app import create_app
from .settings import DEFAULT_PORT, LOOPBACK, WebSettings

_START_SECONDS = 20.0
_STOP_SECONDS = 5.0


class WebError(RuntimeError):
    """Raised if the pages can't be served; the text says why."""


class WebServer:
    """HTTP server of the web interface. The constructor opens the port.

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
        config = uvicorn.Config(
            create_app(settings, check_readiness=check_readiness),
            log_config=None,
            access_log=False,
            root_path=settings.root_path,
            # Don't wait for open event streams at the shutdown, because they never end.
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serves until a signal stops the server."""
        self._server.run([self._socket])

    def start(self) -> None:
        """Serves in a separate thread, and returns once the server accepts requests.

        Raises:
            WebError: the server doesn't start.
        """
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="beam-web", daemon=True
        )
        self._thread.start()
        waiting = threading.Event()
        for _ in range(int(_START_SECONDS / 0.02)):
            if self._server.started:
                return
            if not self._thread.is_alive():
                break
            waiting.wait(0.02)
        raise WebError("Can't serve the web pages; the log has the reason")

    def stop(self) -> None:
        """Stops serving; may be called more than once."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
        self._socket.close()


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
