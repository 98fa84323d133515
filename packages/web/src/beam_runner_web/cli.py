"""``beam-runner-web``: pages about the jobs of any job server that implements the Beam Job API.

Exit codes: 0 after a signal that stops the server, 1 if it can't serve, 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections.abc import Sequence
from contextlib import suppress

import attrs
from beam_runner_jobservices.credential_flags import add_credential_flags, read_credentials
from beam_runner_jobservices.errors import JobServicesError

from .flags import add_flags, make_settings
from .server import WebError, WebServer

PROGRAM = "beam-runner-web"
_JOB = "job-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves the pages until SIGTERM or SIGINT; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Serves web pages about the jobs of a Beam job server.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--job-endpoint",
        required=True,
        metavar="HOST:PORT",
        help="address of the job server, as in --job_endpoint of pipelines",
    )
    add_credential_flags(parser.add_argument, _JOB)
    add_flags(parser)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {_get_version()}")
    found = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        settings = attrs.evolve(
            make_settings(found, found.job_endpoint), credentials=read_credentials(found, _JOB)
        )
    except (ValueError, JobServicesError) as error:
        parser.error(str(error))
    try:
        server = WebServer(settings)
    except WebError as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    text = f"{PROGRAM} shows the jobs of {settings.job_endpoint} at {server.url}"
    # After its shutdown, uvicorn raises the signal of Ctrl-C again.
    with suppress(KeyboardInterrupt):
        server.run(lambda: print(text, flush=True))
    return 0


def _get_version() -> str:
    try:
        return importlib.metadata.version(PROGRAM)
    except importlib.metadata.PackageNotFoundError:
        return "from its source tree"


if __name__ == "__main__":
    sys.exit(main())
