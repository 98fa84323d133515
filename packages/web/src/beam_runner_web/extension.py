"""Extension of a job server that serves the web interface. The server loads it by the entry point
`beam_runner.extensions`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import attrs

from .flags import add_flags, make_settings
from .settings import WebSettings

if TYPE_CHECKING:
    from beam_runner_jobservices.local_access import LocalAccess

    from .server import WebServer


class WebExtension:
    """Extension that serves the web interface in the job server's process, as a client of the server."""

    def __init__(self) -> None:
        self._settings: WebSettings | None = None
        self._server: WebServer | None = None

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Adds the flags that begin with `--web-`."""
        add_flags(parser)

    def configure(self, found: argparse.Namespace) -> bool:
        """Receives the values of the flags, and returns whether `--serve-http` is true.

        Raises:
            ValueError: the token file can't be read.
        """
        self._settings = make_settings(found, "")
        return bool(found.serve_http)

    def start(self, door: LocalAccess) -> str:
        """Starts to serve the web pages, which the first request loads. Returns the address of the pages.

        If the job server requires credentials, the pages require a token: the token in
        `--web-token-file`, the token of the job server, or the token of one of its users.

        Raises:
            WebError: the pages can't be served.
        """
        # Import here, because the import loads gRPC, and the flags must be available before.
        from beam_runner_jobservices.channels import Credentials

        from .server import WebError, WebServer

        assert self._settings is not None
        settings = attrs.evolve(
            self._settings,
            job_endpoint=door.address,
            job_target=door.target,
            credentials=Credentials(token=door.token),
            token=self._settings.token or ("" if door.users else door.token),
            users=door.users,
        )
        if door.guarded and not settings.requires_token:
            raise WebError(
                "Can't show jobs in a browser: the server requires client"
                " certificates, so its web pages need a token; set --web-token-file"
            )
        self._server = WebServer(settings, door.check_readiness)
        self._server.start()
        asks = ", and require the token" if settings.requires_token else ""
        door.announce_pages(self._server.url)
        return f"its jobs are shown at {self._server.url}{asks}"

    def stop(self) -> None:
        """Stops serving."""
        if self._server is not None:
            self._server.stop()
