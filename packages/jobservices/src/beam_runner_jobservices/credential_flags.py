"""Command-line flags for a client's credentials, which all commands that connect to a job server share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beam_runner_jobservices.channels import Credentials
from beam_runner_jobservices.errors import JobServicesError
from beam_runner_jobservices.guard import read_secret, read_token


def add_credential_flags(flag: Callable[..., Any], prefix: str = "") -> None:
    """Adds the flags with `flag`, which is a parser's ``add_argument``.

    Args:
        prefix: the start of each flag's name, such as ``job-``, for a command that also has flags for
            the credentials of another server.
    """
    flag(
        f"--{prefix}token-file",
        type=Path,
        metavar="FILE",
        help="file with the token of the job server",
    )
    flag(
        f"--{prefix}tls",
        action="store_true",
        help="use TLS; a well-known authority signed the certificate of the server",
    )
    flag(
        f"--{prefix}tls-ca",
        type=Path,
        metavar="FILE",
        help="PEM file of the authority that signed the job server's certificate; implies"
        f" --{prefix}tls",
    )
    flag(
        f"--{prefix}tls-cert",
        type=Path,
        metavar="FILE",
        help="PEM file of the client's certificate",
    )
    flag(
        f"--{prefix}tls-key",
        type=Path,
        metavar="FILE",
        help="PEM file of the key of the client's certificate",
    )


def read_credentials(found: argparse.Namespace, prefix: str = "") -> Credentials:
    """Reads the files that the flags name, and returns the credentials.

    Raises:
        JobServicesError: a file can't be read, a token is invalid, or a certificate has no key.
    """
    start = prefix.replace("-", "_")
    token, tls, authority, certificate, key = (
        getattr(found, f"{start}{name}")
        for name in ("token_file", "tls", "tls_ca", "tls_cert", "tls_key")
    )
    if (certificate is None) != (key is None):
        raise JobServicesError(
            f"A client's certificate needs its key: set both --{prefix}tls-cert and"
            f" --{prefix}tls-key"
        )
    return Credentials(
        token="" if token is None else read_token(token),
        tls=tls or authority is not None or certificate is not None,
        authority=read_secret(authority),
        certificate=read_secret(certificate),
        key=read_secret(key),
    )
