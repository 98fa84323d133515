"""Command ``beam-spark-jobserver``: its flags for Spark, and its subcommands that need Spark."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import attrs
from beam_runner_server import flag_values
from beam_runner_server.job_commands import commands
from beam_runner_server.plain import PlainProcesses, get_distribution_version
from beam_runner_server.ports import Platform

from beam_spark_executor import pack, share_classes
from beam_spark_executor.spark.platform import SparkPlatform
from beam_spark_executor.spark.settings import (
    DEFAULT_MASTER,
    SparkSettings,
    SparkUnavailable,
    check_master,
)

SUBMIT_SCRIPT = Path(__file__).parent / "spark_submit" / "beam_spark_jobserver.py"
"""The script that ``spark-submit`` runs as the server."""

_SCRIPT_HELP = (
    "print the path of the script for spark-submit: spark-submit"
    " $(beam-spark-jobserver --spark-submit-script) FLAGS"
)
_LOG_LEVELS = {"debug": "info", "info": "warn", "warning": "warn", "error": "error"}
"""Spark's log level for each log level of the server."""


@attrs.frozen
class SparkProgram:
    """Command that starts a job server on Spark (`beam_runner_server.ports.Program`)."""

    name: str = "beam-spark-jobserver"
    distribution: str = "beam-spark-executor"
    description: str = (
        "Serves the Beam Job API and runs jobs on Apache Spark. `pack -o FILE.tar.gz`"
        " writes an archive of this Python and its packages for executors without them."
        " `share-classes` writes a file that halves the CPU time of Spark's start."
    ) + commands.HELP
    commands: Mapping[str, Callable[[Sequence[str]], int]] = attrs.field(
        factory=lambda: {
            "pack": pack.main,
            "share-classes": share_classes.main,
            **commands.list_commands("beam-spark-jobserver"),
        }
    )

    @property
    def versions(self) -> str:
        """Returns the versions of the runner, Spark and Beam that ``--version`` prints."""
        spark, beam = (get_distribution_version(one) for one in ("pyspark", "apache-beam"))
        return f"{self.name} {get_distribution_version(self.distribution)} (PySpark {spark}, Apache Beam {beam})"

    def add_flags(self, flag: Callable[..., Any]) -> None:
        """Adds the flags about Spark, and ``--without-spark``."""
        flag(
            "--spark-master-url",
            type=_parse_master_url,
            metavar="URL",
            help="Spark master (default: the master of the existing Spark session,"
            f" else {DEFAULT_MASTER})",
        )
        flag(
            "--spark-conf",
            type=_parse_spark_property,
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a Spark property, such as spark.driver.memory=4g; can be repeated",
        )
        flag(
            "--without-spark",
            type=flag_values.parse_cores,
            nargs="?",
            const=os.cpu_count() or 1,
            metavar="CORES",
            help="run jobs in plain processes on this machine, without Spark and Java (default for"
            " CORES: all)",
        )
        flag("--spark-submit-script", action=_PrintScriptAction, nargs=0, help=_SCRIPT_HELP)

    def create_platform(self, found: argparse.Namespace) -> Platform:
        """Returns the platform that runs worker processes: Spark, or processes of this machine for
        ``--without-spark``.

        Raises:
            ValueError: a flag about Spark is used together with ``--without-spark``.
        """
        if found.without_spark is None:
            return SparkPlatform(
                SparkSettings(
                    master=found.spark_master_url,
                    conf=dict(found.spark_conf),
                    log_level=_LOG_LEVELS[found.log_level],
                )
            )
        if found.spark_master_url or found.spark_conf:
            flag = "--spark-master-url" if found.spark_master_url else "--spark-conf"
            raise ValueError(
                f"{flag} has no effect with --without-spark, which runs jobs in processes of this "
                "machine: leave out one of the two flags"
            )
        return PlainProcesses(found.without_spark)


class _PrintScriptAction(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any) -> NoReturn:
        print(SUBMIT_SCRIPT)
        parser.exit()


def _parse_master_url(text: str) -> str:
    """Returns the URL of a Spark master."""
    try:
        check_master(text)
    except SparkUnavailable as error:
        raise argparse.ArgumentTypeError(str(error).rstrip(".")) from None
    return text


def _parse_spark_property(text: str) -> tuple[str, str]:
    """Returns the key and the value of a Spark property."""
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise argparse.ArgumentTypeError(
            f"expected KEY=VALUE with a key that starts with 'spark.', got {text!r}"
        )
    return key, value
