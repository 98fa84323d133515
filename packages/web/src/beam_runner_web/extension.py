"""The pages as part of a job server: what the entry point `beam_runner.extensions` names."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import attrs

from .flags import add_flags, settings_of
from .settings import WebSettings

if TYPE_CHECKING:
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

    def start(self, job_endpoint: str) -> str:
        """Begins to serve; returns where.

        Raises:
            WebError: the pages cannot be served.
        """
        # Here, so that the flags are known before Beam is imported, which takes seconds.
        from .server import WebServer

        assert self._settings is not None
        self._server = WebServer(attrs.evolve(self._settings, job_endpoint=job_endpoint))
        self._server.start()
        return f"its jobs are shown at {self._server.url}"

    def stop(self) -> None:
        """Stops serving."""
        if self._server is not None:
            self._server.stop()
