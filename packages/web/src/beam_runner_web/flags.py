"""Flags of the pages, the same for `beam-runner-web` and for a job server with pages."""

from __future__ import annotations

import argparse
from pathlib import Path

from .settings import DEFAULT_PORT, WebSettings


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that begin with `--web-`."""
    group = parser.add_argument_group("web interface")
    group.add_argument(
        "--web-port",
        type=_parse_port,
        metavar="PORT",
        help=f"port of the web pages; 0 picks a free port (default: {DEFAULT_PORT}, or"
        " a free port if that port is in use)",
    )
    group.add_argument(
        "--web-host",
        default="localhost",
        metavar="HOST",
        help="host name or address at which the web pages are served (default:"
        " %(default)s); an address that other machines can reach needs"
        " --web-token-file",
    )
    group.add_argument(
        "--web-allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="host name that browsers can use, in addition to localhost; can be repeated",
    )
    group.add_argument(
        "--web-token-file",
        type=Path,
        metavar="FILE",
        help="file with the token of browsers and scripts",
    )
    group.add_argument(
        "--web-root-path",
        default="",
        metavar="PATH",
        help="path under which a proxy serves the web pages (default: none)",
    )
    group.add_argument(
        "--web-read-only",
        action="store_true",
        help="don't let users cancel or drain jobs",
    )


def make_settings(found: argparse.Namespace, job_endpoint: str) -> WebSettings:
    """Returns the settings for parsed flags.

    Raises:
        ValueError: the token file can't be read, or is empty.
    """
    host = found.web_host
    allowed = tuple(found.web_allowed_host)
    return WebSettings(
        job_endpoint=job_endpoint,
        host=host,
        port=found.web_port,
        read_only=found.web_read_only,
        allowed_hosts=allowed if host in ("0.0.0.0", "::") else (*allowed, host),
        token=_read_token(found.web_token_file),
        root_path=_normalize_root_path(found.web_root_path),
    )


def _read_token(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--web-token-file: {error}") from error
    if not token:
        raise ValueError(f"--web-token-file: {file} is empty")
    return token


def _normalize_root_path(path: str) -> str:
    stripped = path.strip("/")
    return f"/{stripped}" if stripped else ""


def _parse_port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)
