"""``beam-runner-web``: pages about the jobs of any job server that speaks the Beam Job API.

Exit codes: 0 after a signal asked for the end, 1 where it cannot serve, 2 where the command line is
wrong.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections.abc import Sequence

from .flags import add_flags, settings_of
from .server import WebError, WebServer

PROGRAM = "beam-runner-web"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves the pages until SIGTERM or SIGINT; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Pages about the jobs of a Beam job server.", allow_abbrev=False
    )
    parser.add_argument(
        "--job-endpoint",
        required=True,
        metavar="HOST:PORT",
        help="the job server, as pipelines are sent to with --job_endpoint",
    )
    add_flags(parser)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {_version()}")
    found = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        settings = settings_of(found, found.job_endpoint)
    except ValueError as error:
        parser.error(str(error))
    try:
        server = WebServer(settings)
    except WebError as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    print(f"{PROGRAM} shows the jobs of {settings.job_endpoint} at {server.url}", flush=True)
    server.run()
    return 0


def _version() -> str:
    try:
        return importlib.metadata.version(PROGRAM)
    except importlib.metadata.PackageNotFoundError:
        return "from its source tree"


if __name__ == "__main__":
    sys.exit(main())
