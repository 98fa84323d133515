"""``beam-runner-web``: pages about the jobs of any job server that implements the Beam Job API.

Exit codes: 0 after a signal that stops the server, 1 if it can't serve, 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.errors import JobServicesError
from beam_runner_jobservices.guard import read_secret, read_token

from .flags import add_flags, settings_of
from .server import WebError, WebServer

PROGRAM = "beam-runner-web"


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
    _add_job_flags(parser.add_argument)
    add_flags(parser)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {_version()}")
    found = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        settings = attrs.evolve(
            settings_of(found, found.job_endpoint), credentials=_credentials(found)
        )
    except (ValueError, JobServicesError) as error:
        parser.error(str(error))
    try:
        server = WebServer(settings)
    except WebError as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return 1
    print(f"{PROGRAM} shows the jobs of {settings.job_endpoint} at {server.url}", flush=True)
    server.run()
    return 0


def _add_job_flags(flag: Callable[..., Any]) -> None:
    flag(
        "--job-token-file",
        type=Path,
        metavar="FILE",
        help="file with the token of the job server, if the server requires one",
    )
    flag(
        "--job-tls",
        action="store_true",
        help="use TLS; a well-known authority has signed the job server's certificate",
    )
    ca = "PEM file of the authority that signed the job server's certificate; implies --job-tls"
    flag("--job-tls-ca", type=Path, metavar="FILE", help=ca)
    flag("--job-tls-cert", type=Path, metavar="FILE", help="PEM file of the client's certificate")
    flag(
        "--job-tls-key",
        type=Path,
        metavar="FILE",
        help="PEM file of the key of the client's certificate",
    )


def _credentials(found: argparse.Namespace) -> Credentials:
    """Returns the credentials for the job server.

    Raises:
        JobServicesError: a file can't be read.
    """
    file = found.job_token_file
    return Credentials(
        token="" if file is None else read_token(file),
        tls=found.job_tls or found.job_tls_ca is not None or found.job_tls_cert is not None,
        authority=read_secret(found.job_tls_ca),
        certificate=read_secret(found.job_tls_cert),
        key=read_secret(found.job_tls_key),
    )


def _version() -> str:
    try:
        return importlib.metadata.version(PROGRAM)
    except importlib.metadata.PackageNotFoundError:
        return "from its source tree"


if __name__ == "__main__":
    sys.exit(main())
