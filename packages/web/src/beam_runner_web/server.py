"""The pages on a port of their own: in this thread, or beside whatever else the process does."""

from __future__ import annotations

import errno
import socket
import threading

import uvicorn

from .app import create_app
from .settings import DEFAULT_PORT, LOOPBACK, WebSettings

_START_SECONDS = 20.0
_STOP_SECONDS = 5.0


class WebError(Exception):
    """The pages cannot be served; the text says why."""


class WebServer:
    """Serves the pages. Making one takes the port.

    Raises:
        WebError: the port is taken, or others than this machine could ask without a token.
    """

    def __init__(self, settings: WebSettings) -> None:
        if settings.host not in LOOPBACK and not settings.token:
            raise WebError(
                f"at {settings.host} others than this machine can ask: that needs a token, in a "
                "file that --web-token-file names"
            )
        try:
            self._socket = _listen(settings.host, settings.port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise WebError(f"cannot listen at {settings.host}:{settings.port}: {reason}") from error
        port = self._socket.getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        self.url = f"http://{host}:{port}{settings.root_path}/"
        """Where a browser finds the list of jobs."""
        config = uvicorn.Config(
            create_app(settings),
            log_config=None,
            access_log=False,
            root_path=settings.root_path,
            # Live pages are streams that never end.
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serves until a signal asks for the end."""
        self._server.run([self._socket])

    def start(self) -> None:
        """Serves in a thread of its own, and returns once it does.

        Raises:
            WebError: it does not begin to.
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
        raise WebError("the pages could not be served; the log says why")

    def stop(self) -> None:
        """Stops serving; may be called more than once."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
        self._socket.close()


def _listen(host: str, port: int | None) -> socket.socket:
    if port is None:
        try:
            return _listen(host, DEFAULT_PORT)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return _listen(host, 0)
    (family, kind, protocol, _, address), *_ = sorted(
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE),
        key=lambda found: found[0] != socket.AF_INET,
    )
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # Whoever is told the address may ask at once, and waits until it is served.
        listening.listen()
    except BaseException:
        listening.close()
        raise
    return listening
