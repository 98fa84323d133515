"""Pipeline options of `BeamSparkRunner`, including the options that configure a server that the runner starts."""

from __future__ import annotations

import argparse
import importlib.util
import re
from collections.abc import Mapping
from typing import Any

import attrs
from apache_beam.options.pipeline_options import (
    PipelineOptions,
    PortableOptions,
    SparkRunnerOptions,
)
from beam_runner_runtime.job_options import BULK, NUMBERS, VARIABLES, BulkMode
from beam_runner_runtime.quarantine_options import QUARANTINE_NUMBERS, QUARANTINE_TEXTS
from beam_runner_runtime.update_options import UPDATE_OPTIONS

from beam_spark_executor.client.displays import ProgressMode
from beam_spark_executor.client.option_checks import check_runner_options

_MASTER = "spark_master_url"
_FLAGS = {
    _MASTER: "--spark-master-url",
    "beam_spark_conf": "--spark-conf",
    "beam_spark_state_dir": "--state-dir",
    "beam_spark_data_dir": "--data-dir",
    "beam_spark_web_port": "--web-port",
}
PROGRESS = "beam_spark_progress"
VERBOSE_ERRORS = "beam_spark_verbose_errors"
OF_THE_CLIENT = (PROGRESS, VERBOSE_ERRORS)
"""Options that only the client reads."""
MADE_THE_SERVER = tuple(_FLAGS)
"""Options that configure the server, not the job."""
_OFF = "off"
_ITS_HELP = "; see beam-spark-jobserver --help"


class BeamSparkOptions(PipelineOptions):
    """Options of `BeamSparkRunner`. All names start with the same prefix, because Beam parses the
    options of all packages together.
    """

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group(
            "BeamSparkRunner",
            "The first five options configure the server that BeamSparkRunner starts"
            " on this machine if --job_endpoint isn't set. --spark_master_url sets the"
            " server's Spark master.",
        )
        group.add_argument(
            "--beam_spark_conf",
            action="append",
            metavar="KEY=VALUE",
            help="a Spark property, such as spark.driver.memory=4g; can be repeated",
        )
        group.add_argument(
            "--beam_spark_state_dir",
            metavar="DIR",
            help="folder with the state of jobs; without a folder, jobs end with the program",
        )
        group.add_argument(
            "--beam_spark_data_dir",
            metavar="URL",
            help="location of the data between stages if Spark runs on other machines, as in"
            " --data-dir of beam-spark-jobserver",
        )
        group.add_argument(
            "--beam_spark_web_port",
            type=_parse_web_port,
            metavar="PORT",
            help="port of the web pages, 0 for a free port, or off (default: a free port if"
            " beam-runner-web is installed)",
        )
        group.add_argument(
            f"--{PROGRESS}",
            choices=[one.value for one in ProgressMode],
            default=ProgressMode.AUTO.value,
            help="progress of a job on standard error: auto updates one line on a terminal and writes"
            " few lines elsewhere; lines always writes few lines (default: %(default)s)",
        )
        group.add_argument(
            f"--{VERBOSE_ERRORS}",
            action="store_true",
            help="show the frames of the runner in the error of a failed job",
        )
        cls._add_job_options(group)

    @staticmethod
    def _add_job_options(group: argparse._ArgumentGroup) -> None:
        for option in (*NUMBERS, *QUARANTINE_NUMBERS):
            group.add_argument(f"--{option.name}", metavar="N", help=option.description)
        words = ",".join(one.value for one in BulkMode)
        group.add_argument(f"--{BULK.name}", metavar=f"{{{words}}}", help=BULK.description)
        for update in (*UPDATE_OPTIONS, *QUARANTINE_TEXTS):
            group.add_argument(
                f"--{update.name}",
                action="append" if update.is_repeated else "store",
                metavar=update.metavar,
                help=update.description,
            )
        group.add_argument(
            f"--{VARIABLES.name}",
            action="append",
            metavar="NAME[=VALUE]",
            help=VARIABLES.description,
        )

    @classmethod
    def list_names(cls) -> list[str]:
        """Returns the names of all options."""
        parser = argparse.ArgumentParser(add_help=False)
        cls._add_argparse_args(parser)
        return [action.dest for action in parser._actions]


@attrs.frozen
class RequestedServer:
    """Server that the options of a pipeline request.

    Attributes:
        endpoint: the ``host:port`` of a running server; empty to find or start one.
        flags: the command line of a server to start.
    """

    endpoint: str
    flags: tuple[str, ...]


def find_requested_server(options: PipelineOptions) -> RequestedServer:
    """Returns the server that the options of a pipeline request.

    Raises:
        ValueError: the options name a running server and also flags for a new one, or have no port,
            or an option of the runner is unknown or has an invalid value.
    """
    check_runner_options(options, BeamSparkOptions.list_names())
    ours = options.view_as(BeamSparkOptions)
    wished: dict[str, Any] = {
        _MASTER: _find_requested_spark_master(options),
        "beam_spark_conf": ours.beam_spark_conf,
        "beam_spark_state_dir": ours.beam_spark_state_dir,
        "beam_spark_data_dir": ours.beam_spark_data_dir,
        "beam_spark_web_port": ours.beam_spark_web_port,
    }
    endpoint = options.view_as(PortableOptions).job_endpoint or ""
    if endpoint and ":" not in endpoint:
        raise ValueError(
            f"--job_endpoint is {endpoint!r}; expected HOST:PORT, such as localhost:8099"
        )
    asked = [f"--{name}" for name, value in wished.items() if value is not None]
    if endpoint and asked:
        raise ValueError(
            f"{' and '.join(asked)} can't change the running server at"
            f" --job_endpoint={endpoint}: set these options when you start that server,"
            " or leave out --job_endpoint"
        )
    return RequestedServer(endpoint, tuple(_make_server_flags(wished)))


def replace_flags_by_options(sentence: str) -> str:
    """Replaces the server's flags in an error message by the names of the pipeline options that set them."""
    for option, flag in _FLAGS.items():
        sentence = re.sub(rf"(?<![\w-]){flag}(?![\w-])", f"--{option}", sentence)
    return sentence.removesuffix(_ITS_HELP)


def _make_server_flags(wished: Mapping[str, Any]) -> list[str]:
    flags = []
    wished = {**wished, "beam_spark_web_port": _select_web_port(wished["beam_spark_web_port"])}
    for option, flag in _FLAGS.items():
        value = wished[option]
        values = value if isinstance(value, list | tuple) else [] if value is None else [value]
        flags += [f"{flag}={each}" for each in values]
    return flags if wished["beam_spark_web_port"] is not None else [*flags, "--serve-http=false"]


def _select_web_port(asked: str | int | None) -> str | None:
    """Returns the port of the web pages; None if the server must serve no pages."""
    if asked is None:
        return "0" if importlib.util.find_spec("beam_runner_web") is not None else None
    return None if asked == _OFF else str(asked)


def _parse_web_port(text: str) -> str:
    if text != _OFF and not (text.isdecimal() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535 or off, got {text!r}")
    return text


def _find_requested_spark_master(options: PipelineOptions) -> str | None:
    """Returns the Spark master that the user has named. Beam's option for its own Spark runner has a default."""
    value = options.view_as(SparkRunnerOptions).spark_master_url
    stated = any(
        flag.partition("=")[0] == f"--{_MASTER}" for flag in options._flags if isinstance(flag, str)
    )
    default = SparkRunnerOptions([]).spark_master_url
    return str(value) if stated or value != default else None
