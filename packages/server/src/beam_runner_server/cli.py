"""Command that runs a server: starts the server, prints its address, and stops it in order.

Exit codes: 0 after a signal that stops the server, 1 if the server can't start or loses its
workers, 2 for a wrong command line.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from beam_runner_model.errors import RunnerError, Unavailable
from beam_runner_model.threads import start_essential_thread
from beam_runner_runtime import garbage, logs
from beam_runner_runtime.shutdown.detections import Detector, log_detection
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_storage.stores.ports import StoreError

from beam_runner_server import extensions, parent_watch
from beam_runner_server.flags import ServerSettings, parse_command_line
from beam_runner_server.plain import PlainProgram
from beam_runner_server.ports import Program

if TYPE_CHECKING:
    from beam_runner_server.job_server import RunnerServer

_START_CHECK_SECONDS = 0.1

log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None, program: Program | None = None) -> int:
    """Runs a server until SIGTERM, SIGINT or SIGHUP, or runs another command; returns the exit code.

    Args:
        arguments: the command line; None for the arguments of this process.
        program: the command; None is ``beam-runner-jobserver``, a server without a cluster.
    """
    program = program or PlainProgram()
    given = sys.argv[1:] if arguments is None else arguments
    if given and (command := program.commands.get(given[0])) is not None:
        return command(given[1:])
    return _run_server(parse_command_line(given, program), program.name)


def _run_server(settings: ServerSettings, name: str) -> int:
    logs.configure_logging(settings.log_level, settings.log_kind)
    say = _ProgressWriter(name)
    signals = _StopSignals(say)
    try:
        server = _create_server(settings, say, signals.received)
    except _ServerStartError as error:
        return say.write_failure(str(error))
    if server is None:
        return 0
    signals.run_at_second_signal(server.kill)
    try:
        parent_watch.watch_output_and_process(
            sys.stdout.fileno(), settings.parent_pid, signals.stop_orphaned_process
        )
        server.placement.check_requirements()
    except (parent_watch.ParentAlreadyExited, Unavailable) as error:
        server.stop()
        return say.write_failure(str(error))
    server.serve()
    if settings.port_file is not None:
        try:
            _write_atomically(settings.port_file, server.address)
        except OSError as error:
            server.stop()
            return say.write_failure(f"Can't write --port-file {settings.port_file}: {error}")
    failure = _start_server(server, signals)
    if failure is None and not signals.received.is_set():
        told = extensions.start_extensions(settings.extensions, server.door)
        garbage.tune_garbage_collector()
        served = (
            f"{name} serves the Beam Job API at {server.address} "
            f"({server.placement.name}, {server.placement.where})"
        )
        with contextlib.suppress(BrokenPipeError):
            print("; ".join((served, *told)), flush=True)
        failure = _wait_for_stop(server, signals, settings.idle_shutdown_timeout)
        if signals.terminated:
            _end_jobs(server, settings.on_sigterm)
    for extension in settings.extensions:
        extension.stop()
    server.stop()
    return 0 if failure is None else say.write_failure(failure)


class _ServerStartError(Exception):
    """Raised if the server can't start; the text says why."""


class _StopSignals:
    """Handler of the signals that stop the server. The first signal sets ``received``; the second
    signal stops the server immediately.

    A second SIGINT that isn't from a terminal counts only if it is sent more than 10 s after the
    first. ``terminated`` is true if the first signal was SIGTERM.
    """

    def __init__(self, say: _ProgressWriter) -> None:
        self._say = say
        self.received = threading.Event()
        self.terminated = False
        self._hurry: Callable[[], None] | None = None
        self._hurried = False
        self._first = 0.0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def run_at_second_signal(self, action: Callable[[], None]) -> None:
        """Registers ``action``. If the process gets a second signal, ``action`` runs before the
        process ends.
        """
        self._hurry = action

    def stop_orphaned_process(self, reason: str) -> None:
        """Sends SIGTERM to this process, because the parent process has exited. Sends a second
        SIGTERM after `orphaned_hurry_seconds`.
        """
        log_detection(Detector.OWNER, f"the server's owner: {reason}")
        self._say.write_progress(f"exits: {reason}")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(LIMITS.orphaned_hurry_seconds)
        os.kill(os.getpid(), signal.SIGTERM)

    def _is_repeated_by_parent(self) -> bool:
        """Returns whether a program has started this server and repeats SIGINT each second, as Beam's SDKs do."""
        return (
            not sys.stdout.isatty()
            and time.monotonic() - self._first < LIMITS.repeated_signal_seconds
        )

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.received.is_set():
            self._first = time.monotonic()
            self.terminated = number == signal.SIGTERM
            self.received.set()
            self._say.write_progress("is stopping")
        elif number == signal.SIGINT and self._is_repeated_by_parent():
            return
        elif self._hurry is not None and not self._hurried:
            self._hurried = True
            _discard_stderr()
            self._hurry()
            os._exit(0)


def _create_server(
    settings: ServerSettings, say: _ProgressWriter, stopping: threading.Event
) -> RunnerServer | None:
    """Creates the server, which then listens on its port. Returns None if ``stopping`` is set while
    this process waits as a standby server.

    The function imports Beam, which takes seconds, while Spark starts in parallel.
    """
    platform = settings.platform
    with logs.suppress_import_warnings():
        platform.begin_startup()
    try:
        server = _create_bound_server(settings, say, stopping)
    except BaseException:
        platform.kill()
        raise
    if server is None:
        platform.kill()
    return server


def _create_bound_server(
    settings: ServerSettings, say: _ProgressWriter, stopping: threading.Event
) -> RunnerServer | None:
    with logs.suppress_import_warnings():
        from beam_runner_jobservices.errors import UnguardedAddress

        from beam_runner_server.job_server import RunnerServer
        from beam_runner_server.standby import wait_until_state_is_free

    settings.platform.create_fork_server()
    try:
        if settings.standby:
            assert settings.state_dir is not None
            say.write_progress("stands by until no other server uses its --state-dir")
            if not wait_until_state_is_free(settings.state_dir, stopping):
                return None
            say.write_progress("takes over the state")
        server = RunnerServer(settings)
    except UnguardedAddress as error:
        raise _ServerStartError(
            f"{error}: set --allow-remote, and --token-file, --users-file or --tls-client-ca"
        ) from error
    except (RunnerError, OSError) as error:
        raise _ServerStartError(str(error)) from error
    for sentence in server.damage:
        log.warning("%s", sentence)
        if not log.isEnabledFor(logging.WARNING):
            say.write_failure(sentence)
    return server


def _start_server(server: RunnerServer, signals: _StopSignals) -> str | None:
    """Starts the server in a thread, so that a signal can interrupt the start. Returns the reason
    if the server didn't start.
    """
    failures: list[str] = []

    def start_server() -> None:
        try:
            server.start()
        except Exception as error:
            if signals.received.is_set():
                return  # a signal stopped the server, so this is no error
            if not isinstance(error, Unavailable | StoreError):
                log.exception("Can't start the server")
            failures.append(str(error) or type(error).__name__)

    def record_failure(error: BaseException) -> None:
        failures.append(f"the start of the server failed: {type(error).__name__}: {error}")

    thread = start_essential_thread(start_server, "start", record_failure)
    while thread.is_alive() and not signals.received.is_set():
        thread.join(_START_CHECK_SECONDS)
    if thread.is_alive():
        _discard_stderr()
        server.kill()
        thread.join(LIMITS.start_stop_seconds)
    return failures[0] if failures else None


def _wait_for_stop(
    server: RunnerServer, signals: _StopSignals, idle_limit: float | None
) -> str | None:
    """Waits for a signal or the idle timeout. Returns an error text if Spark or the worker processes end first."""
    busy = time.monotonic()
    while not signals.received.wait(LIMITS.placement_look_seconds):
        if not server.placement.is_alive:
            log_detection(Detector.PLACEMENT, "the placement")
            return server.placement.loss_message
        if server.state_failure is not None:
            return server.state_failure
        if idle_limit is None or server.has_jobs():
            busy = time.monotonic()
        elif time.monotonic() - busy > idle_limit:
            log.info("no job has run for %.0f seconds: the server exits", idle_limit)
            return None
    return None


def _end_jobs(server: RunnerServer, wish: str | None) -> None:
    """Cancels or drains all jobs before the server stops, depending on `wish`."""
    match wish:
        case "cancel":
            server.cancel_jobs()
        case "drain":
            server.drain_jobs()


def _write_atomically(file: Path, text: str) -> None:
    """Writes a file atomically: readers see all of its text or no file."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    unfinished.write_text(text)
    unfinished.replace(file)


class _ProgressWriter:
    """Writer of the command's messages to standard error, with the command's name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def write_failure(self, text: str) -> int:
        """Writes an error; returns the exit code."""
        _write_to_stderr(f"{self._name}: {logs.escape_unprintable(text)}")
        return 1

    def write_progress(self, text: str) -> None:
        """Writes a message about the current activity of the command."""
        _write_to_stderr(f"{self._name} {text}")


def _discard_stderr() -> None:
    """Discards all later output to standard error, because libraries write long errors when their
    processes are killed.
    """
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), sys.stderr.fileno())


def _write_to_stderr(line: str) -> None:
    """Writes a line to standard error, and ignores a closed stream."""
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
