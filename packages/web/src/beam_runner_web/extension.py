"""The pages as part of a job server: what the entry point `beam_runner.extensions` names."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import attrs

from .flags import add_flags, settings_of
from .settings import WebSettings

if TYPE_CHECKING:
    from beam_runner_jobservices.door import Door

    from .server import WebServer


class WebExtension:
    """Serves the pages beside a job server, in the same process, as a client of it."""

    def __init__(self) -> None:
        self._settings: WebSettings | None = None
        self._server: WebServer | None = None

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Adds the flags that begin with `--web-`."""
        add_flags(parser)

    def configure(self, found: argparse.Namespace) -> None:
        """Takes the values of the flags.

        Raises:
            ValueError: the file of the token cannot be read.
        """
        self._settings = settings_of(found, "")

    def start(self, door: Door) -> str:
        """Begins to serve; returns where.

        Where the job server asks for something, so do the pages: for the token that
        `--web-token-file` names, else for the job server's own.

        Raises:
            WebError: the pages cannot be served.
        """
        # Here, so that the flags are known before Beam is imported, which takes seconds.
        from beam_runner_jobservices.channels import Credentials

        from .server import WebError, WebServer

        assert self._settings is not None
        settings = attrs.evolve(
            self._settings,
            job_endpoint=door.address,
            job_target=door.target,
            credentials=Credentials(token=door.token),
            token=self._settings.token or door.token,
        )
        if door.guarded and not settings.token:
            raise WebError(
                "its jobs are not shown in a browser: the server asks for certificates, so its pages "
                "need a token, in a file that --web-token-file names"
            )
        self._server = WebServer(settings)
        self._server.start()
        asks = ", for who knows the token" if settings.token else ""
        return f"its jobs are shown at {self._server.url}{asks}"

    def stop(self) -> None:
        """Stops serving."""
        if self._server is not None:
            self._server.stop()
