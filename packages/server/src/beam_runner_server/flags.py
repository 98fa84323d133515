"""Parser of a server's command line, and the record of its settings."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from typing import Any, NoReturn

import attrs
from beam_runner_runtime.job_options import BulkMode
from beam_runner_storage.stores.spec import StoreSpec

from beam_runner_server import flag_values
from beam_runner_server.channel_flags import (
    ChannelSettings,
    add_channel_flags,
    read_channel_settings,
)
from beam_runner_server.extensions import Extension, find_extensions
from beam_runner_server.job_flags import (
    DEFAULT_OUTAGE_SECONDS,
    DEFAULT_RETENTION_SECONDS,
    add_job_flags,
    add_retention_flags,
)
from beam_runner_server.plain import PlainProcesses
from beam_runner_server.ports import Platform, Program

DEFAULT_PORT = 8099

# Accept the names of Prism's flags, because SDKs can start this program in place of Prism.
_LOG_LEVELS_ELSEWHERE = {"warn": "warning"}
_LOG_KINDS_ELSEWHERE = {"dev": "text", "console": "json"}
# Flags of optional packages, with the package to install. An error message about an unknown flag
# names this package.
_ELSEWHERE = {"--web-port": "beam-runner-web: python3 -m pip install '{distribution}[web]'"}
_LOG_LEVELS = ("debug", "info", "warning", "error")


@attrs.frozen
class ServerSettings:
    """The settings of a server; ``--help`` describes the flags with these names.

    Attributes:
        data: ``--data-dir``: a store, or a folder that all machines share. ``None`` is a folder in
            ``state_dir``, which only workers on this machine can use.
        channel: the address at which executors reach the server.
        platform: the platform on which jobs run.
        extensions: the services that run with the Job API.
        max_stream_attempts: None is without limit.
        outage_limit: in seconds; None is without limit.
        keep_failed_streams: in seconds; 0 keeps no state.
        keep_jobs_for: in seconds; None is without limit.
        idle_shutdown_timeout: in seconds.
    """

    job_host: str = "localhost"
    job_port: int = DEFAULT_PORT
    state_dir: StoreSpec | Path | None = None
    data: StoreSpec | None = None
    channel: ChannelSettings = attrs.field(factory=ChannelSettings)
    sync_data: bool = False
    standby: bool = False
    artifacts_dir: Path | None = None
    on_sigterm: str | None = None
    max_task_attempts: int = 1
    max_stream_attempts: int | None = None
    outage_limit: float | None = DEFAULT_OUTAGE_SECONDS
    keep_failed_streams: float = 0.0
    keep_jobs: int = 500
    keep_jobs_for: float | None = None
    keep_messages: int = 10_000
    hide_elements: bool = False
    bulk: BulkMode = BulkMode.AUTO
    platform: Platform = attrs.field(factory=PlainProcesses)
    log_level: str = "info"
    log_kind: str = "text"
    extensions: tuple[Extension, ...] = ()
    allow_remote: bool = False
    token_file: Path | None = None
    users_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    port_file: Path | None = None
    parent_pid: int | None = None
    idle_shutdown_timeout: float | None = None


def parse_command_line(arguments: Sequence[str], program: Program) -> ServerSettings:
    """Returns the result of `parse_settings` for a program's command line.

    Raises:
        SystemExit: with code 2 and one line on standard error if an argument is wrong; with code 0
            after ``--help`` and ``--version``.
    """
    try:
        return parse_settings(arguments, program)
    except InvalidFlag as error:
        sys.stderr.write(f"{program.name}: {error}; see {program.name} --help\n")
        raise SystemExit(2) from error


class InvalidFlag(Exception):
    """Raised for a wrong argument; the text says which one."""


def parse_settings(arguments: Sequence[str], program: Program) -> ServerSettings:
    """Returns the settings for ``arguments``. In the names of flags, ``_`` is the same as ``-``.

    Raises:
        InvalidFlag: an argument is wrong.
        SystemExit: with code 0 after ``--help`` and ``--version``.
    """
    parser = _make_parser(program)
    extensions = find_extensions()
    for extension in extensions:
        extension.add_flags(parser)
    known = frozenset(parser._option_string_actions)
    spelt = [_normalize_flag(argument, known) for argument in arguments]
    found, unknown = parser.parse_known_args(spelt)
    if unknown:
        parser.error(_describe_unknown_argument(unknown[0], parser, program))
    try:
        wanted = tuple(one for one in extensions if one.configure(found))
    except ValueError as error:
        parser.error(str(error))
    _check_state_flags(parser, found)
    if found.token_file is not None and found.users_file is not None:
        parser.error("--users-file replaces --token-file: set one of them")
    if found.keep_failed_streams is None:
        found.keep_failed_streams = 0.0 if found.state_dir is None else DEFAULT_RETENTION_SECONDS
    try:
        platform = program.create_platform(found)
    except ValueError as error:
        parser.error(str(error))
    same = {field.name for field in attrs.fields(ServerSettings)} & vars(found).keys()
    derived = {
        "data": found.data_dir,
        "channel": read_channel_settings(found),
        "bulk": BulkMode(found.bulk),
        "platform": platform,
        "extensions": wanted,
    }
    return ServerSettings(**{name: getattr(found, name) for name in same} | derived)


def _check_state_flags(parser: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    """Reports an error for flags that need a ``--state-dir``, or that can't be used with it."""
    if found.on_sigterm == "suspend" and found.state_dir is None:
        parser.error(
            "--on-sigterm=suspend needs a --state-dir, so that the next server can resume jobs"
        )
    if found.keep_failed_streams and found.state_dir is None:
        parser.error(
            "--keep-failed-streams needs a --state-dir, so that the state remains after the "
            "server's exit"
        )
    if found.standby and found.state_dir is None:
        parser.error(
            "--standby needs the --state-dir of the server for which this server stands by"
        )
    if found.sync_data and found.state_dir is None:
        parser.error("--sync-data needs a --state-dir, so that the next server can resume jobs")
    if isinstance(found.state_dir, StoreSpec):
        if found.data_dir is None:
            parser.error(
                f"--state-dir={found.state_dir.url} needs a --data-dir that the next server can "
                "reach: set a store, or a folder"
                " that machines share, because this server's disk can be lost with the server"
            )
        if found.artifacts_dir is not None:
            parser.error(
                f"--artifacts-dir has no effect, because --state-dir={found.state_dir.url} stores "
                "the files that clients stage:"
                " leave out --artifacts-dir"
            )


class _PrintVersionsAction(argparse.Action):
    """Action of ``--version``. It determines the versions only when the flag is used, because this takes time."""

    def __init__(self, *arguments: Any, program: Program, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._program = program

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any) -> NoReturn:
        print(self._program.versions)
        parser.exit()


class _FlagParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidFlag(message)


def _make_parser(program: Program) -> _FlagParser:
    parser = _FlagParser(prog=program.name, description=program.description, allow_abbrev=False)
    _add_server_flags(parser.add_argument)
    _add_guard_flags(parser.add_argument)
    _add_folder_flags(parser.add_argument)
    add_job_flags(parser.add_argument)
    add_retention_flags(parser.add_argument)
    program.add_flags(parser.add_argument)
    add_channel_flags(parser.add_argument)
    parser.add_argument(
        "--version", action=_PrintVersionsAction, nargs=0, program=program, help="print versions"
    )
    return parser


def _add_server_flags(flag: Callable[..., Any]) -> None:
    flag(
        "--job-port",
        type=flag_values.parse_port,
        default=DEFAULT_PORT,
        metavar="PORT",
        help="port for clients; 0 picks a free port (default: %(default)s)",
    )
    flag(
        "--job-host",
        default="localhost",
        metavar="HOST",
        help="host name or address at which the server listens (default: %(default)s)",
    )
    flag(
        "--port-file",
        type=Path,
        metavar="FILE",
        help="file to which the server writes HOST:PORT when it accepts clients, before Spark is"
        " ready",
    )
    flag(
        "--parent-pid",
        type=flag_values.parse_process_id,
        metavar="PID",
        help="id of a process; the server exits after this process",
    )
    flag(
        "--idle-shutdown-timeout",
        type=flag_values.parse_duration,
        metavar="DURATION",
        help="exit if no job has run for this time, such as 1h30m (default: never, like -1)",
    )
    flag(
        "--log-level",
        type=lambda text: _LOG_LEVELS_ELSEWHERE.get(text.lower(), text.lower()),
        choices=_LOG_LEVELS,
        default="info",
        help="lowest level of log messages (default: %(default)s)",
    )
    flag(
        "--log-kind",
        type=lambda text: _LOG_KINDS_ELSEWHERE.get(text.lower(), text.lower()),
        choices=("text", "json"),
        default="text",
        help="format of log lines (default: %(default)s)",
    )
    flag(
        "--serve-http",
        type=flag_values.parse_boolean,
        nargs="?",
        const=True,
        default=True,
        metavar="true|false",
        help="serve the web pages of jobs, if beam-runner-web is installed (default: true)",
    )


def _add_guard_flags(flag: Callable[..., Any]) -> None:
    flag(
        "--allow-remote",
        action="store_true",
        help="allow a --job-host that other machines can reach; needs --token-file, --users-file"
        " or --tls-client-ca",
    )
    flag(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token that clients must send as the metadata 'authorization: Bearer"
        " TOKEN'",
    )
    flag(
        "--users-file",
        type=Path,
        metavar="FILE",
        help="TOML or JSON file with the token and rights of each user, instead of --token-file;"
        " read again when it changes",
    )
    flag("--tls-cert", type=Path, metavar="FILE", help="PEM file of the server's certificate")
    flag(
        "--tls-key",
        type=Path,
        metavar="FILE",
        help="PEM file of the key of the server's certificate",
    )
    flag(
        "--tls-client-ca",
        type=Path,
        metavar="FILE",
        help="PEM file of the authority that signs client certificates, which clients then need",
    )


def _add_folder_flags(flag: Callable[..., Any]) -> None:
    flag(
        "--state-dir",
        type=flag_values.parse_state_dir,
        metavar="DIR",
        help="folder with the state of jobs, which the next server with the folder resumes; or a"
        " store such as s3://BUCKET/PREFIX for servers on any machine, which also needs a"
        " --data-dir (default: a temporary folder, and jobs end with the server)",
    )
    flag(
        "--data-dir",
        type=flag_values.parse_data_location,
        metavar="URL",
        help="location of the data between stages: s3://BUCKET/PREFIX, gs://, az://, abfss://,"
        " hdfs://, viewfs://, a folder that all machines have under this path, or none, with"
        " which jobs that need shared storage fail (default: a folder in the state folder if"
        " Spark runs on this machine, else none)",
    )
    flag(
        "--sync-data",
        action="store_true",
        help="with a local --state-dir: flush output to the disk before each commit, so that jobs"
        " survive a power failure (default: jobs survive only the exit of processes)",
    )
    flag(
        "--standby",
        action="store_true",
        help="wait while another server uses the --state-dir, and take over within 15 s after it"
        " ends, or with a store after it hangs or can't reach the store (default: start"
        " immediately, and take a store over)",
    )
    flag(
        "--artifacts-dir",
        type=Path,
        metavar="DIR",
        help="folder for staged files (default: a folder in the state folder)",
    )


def _normalize_flag(argument: str, known: Set[str]) -> str:
    """Returns a flag in this program's spelling. Beam's Go SDK writes flags in Go's format, such as ``-job_port=1``."""
    if not argument.startswith("-"):
        return argument
    name, equals, value = argument.partition("=")
    long = _get_long_flag_name(name)
    return long + equals + value if name.startswith("--") or long in known else argument


def _get_long_flag_name(name: str) -> str:
    return "--" + name.lstrip("-").replace("_", "-")


def _describe_unknown_argument(
    argument: str, parser: argparse.ArgumentParser, program: Program
) -> str:
    name = argument.partition("=")[0]
    if not name.startswith("-"):
        near = difflib.get_close_matches(name, program.commands, n=1, cutoff=0.5)
        hint = f"did you mean the command {near[0]}?" if near else "all settings are flags"
        return f"unexpected argument {argument!r}: {hint}"
    long = _get_long_flag_name(name)
    if long in _ELSEWHERE:
        return f"{long} needs {_ELSEWHERE[long].format(distribution=program.distribution)}"
    known = [option for action in parser._actions for option in action.option_strings]
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"unknown flag {name}" + (f": did you mean {nearest[0]}?" if nearest else "")
