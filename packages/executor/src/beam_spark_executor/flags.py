"""The command line of ``beam-spark-jobserver``, read into one frozen record."""

from __future__ import annotations

import argparse
import difflib
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import attrs

from beam_spark_executor.spark.settings import (
    DEFAULT_MASTER,
    SparkSettings,
    SparkUnavailable,
    check_master,
)

PROGRAM = "beam-spark-jobserver"
DEFAULT_PORT = 8099

_SPARK_LOG_LEVELS = {"debug": "info", "info": "warn", "warning": "warn", "error": "error"}


@attrs.frozen
class ServerSettings:
    """What a server is started with.

    - ``job_port``: the port to serve at; 0 picks a free one.
    - ``artifacts_dir``: where staged files are kept while their jobs run; ``None`` is a private
      temporary folder.
    - ``log_level``: ``debug``, ``info``, ``warning`` or ``error``.
    - ``log_kind``: ``text``, or ``json`` for one object per line.
    """

    job_host: str = "localhost"
    job_port: int = DEFAULT_PORT
    artifacts_dir: Path | None = None
    spark: SparkSettings = attrs.field(factory=SparkSettings)
    log_level: str = "info"
    log_kind: str = "text"


def parse(arguments: Sequence[str]) -> ServerSettings:
    """The settings that ``arguments`` ask for; in the names of flags ``_`` is the same as ``-``.

    Raises:
        SystemExit: with code 2 and one line on standard error where an argument is wrong; with code
            0 after ``--help`` and ``--version``.
    """
    parser = _parser()
    found, unknown = parser.parse_known_args([_with_dashes(argument) for argument in arguments])
    if unknown:
        parser.error(_unknown(unknown[0], parser))
    return ServerSettings(
        job_host=found.job_host,
        job_port=found.job_port,
        artifacts_dir=found.artifacts_dir,
        spark=SparkSettings(
            master=found.spark_master_url,
            conf=dict(found.spark_conf),
            log_level=_SPARK_LOG_LEVELS[found.log_level],
        ),
        log_level=found.log_level,
        log_kind=found.log_kind,
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{PROGRAM}: {message}; see {PROGRAM} --help\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog=PROGRAM,
        description="Serves the Beam Job API and runs the jobs on Apache Spark.",
        allow_abbrev=False,
    )
    flag = parser.add_argument
    flag(
        "--job-port",
        type=_port,
        default=DEFAULT_PORT,
        metavar="PORT",
        help="port to serve at; 0 picks a free one (default: %(default)s)",
    )
    flag(
        "--job-host",
        default="localhost",
        metavar="HOST",
        help="host name or address to listen at (default: %(default)s)",
    )
    flag(
        "--artifacts-dir",
        type=Path,
        metavar="DIR",
        help="folder for the files that clients stage (default: a temporary one)",
    )
    flag(
        "--spark-master-url",
        type=_master,
        metavar="URL",
        help=f"Spark master (default: that of the ambient Spark session, else {DEFAULT_MASTER})",
    )
    flag(
        "--spark-conf",
        type=_property,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a Spark property, as in spark.driver.memory=4g; may be repeated",
    )
    flag(
        "--log-level",
        type=str.lower,
        choices=tuple(_SPARK_LOG_LEVELS),
        default="info",
        help="what to log to standard error (default: %(default)s)",
    )
    flag(
        "--log-kind",
        type=str.lower,
        choices=("text", "json"),
        default="text",
        help="form of the log's lines (default: %(default)s)",
    )
    flag("--version", action="version", version=_versions())
    return parser


def _with_dashes(argument: str) -> str:
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return name.replace("_", "-") + equals + value


def _unknown(argument: str, parser: argparse.ArgumentParser) -> str:
    name = argument.partition("=")[0]
    if not name.startswith("-"):
        return f"unexpected argument {argument!r}: every setting is a flag"
    known = [option for action in parser._actions for option in action.option_strings]
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"unknown flag {name}" + (f": did you mean {nearest[0]}?" if nearest else "")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def _master(text: str) -> str:
    try:
        check_master(text)
    except SparkUnavailable as error:
        raise argparse.ArgumentTypeError(str(error).rstrip(".")) from None
    return text


def _property(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(
            f"expected KEY=VALUE with a key that begins with 'spark.', got {text!r}"
        )
    return key, value


def _versions() -> str:
    def version(distribution: str) -> Any:
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            return "from its source tree"

    return (
        f"{PROGRAM} {version('beam-spark-executor')} "
        f"(PySpark {version('pyspark')}, Apache Beam {version('apache-beam')})"
    )
