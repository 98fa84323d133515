"""Launchers of SDK harnesses: the protocol, and the choice of a launcher for each kind of environment.

| environment | harness |
|---|---|
| EXTERNAL | a worker of a pool, also the LOOPBACK worker of the program that submitted the job |
| PROCESS | a command |
| DOCKER | a container of an image |
| embedded Python | a process of this interpreter, with the staged packages |
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol

from beam_runner_model.staged_packages import has_packages
from beam_runner_model.stages import Environment
from beam_runner_urns import environments as urns

from beam_runner_worker.errors import UnsupportedEnvironment
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.docker import DockerWorker
from beam_runner_worker.fnapi.external import ExternalWorker
from beam_runner_worker.fnapi.guarded import OutputHandler
from beam_runner_worker.fnapi.process import ProcessWorker, parse_process_payload
from beam_runner_worker.fnapi.starting import HarnessActivity
from beam_runner_worker.log_records import LogRecord, Severity
from beam_runner_worker.ports import LogSink
from beam_runner_worker.prints import LineBudget, describe_excess_lines, make_print_record

_BOOT = (sys.executable, "-m", "beam_runner_worker.fnapi.boot")


class Launcher(Protocol):
    """Launcher of one SDK harness, which starts, observes and stops the harness. :meth:`start` is called once."""

    @property
    def description(self) -> str:
        """Noun phrase that names the harness in messages."""

    @property
    def needs_preparation(self) -> bool:
        """Whether the harness may need minutes before it connects, to install packages or pull an
        image.
        """

    @property
    def is_failure_permanent(self) -> bool:
        """Whether the failed start of the harness would fail again, also on other machines."""

    def start(self, endpoint: str) -> None:
        """Starts the harness, which connects to the services at ``endpoint``. Doesn't wait for the
        connection.

        Raises:
            HarnessError: the harness can't be started.
        """

    def explain_failure(self, limit: float = 0.0) -> str | None:
        """Returns the reason if the harness has exited or will never connect; None while the
        harness may connect or is running.

        Args:
            limit: maximum time to wait for the exit of the harness, in seconds.
        """

    def measure_activity(self) -> HarnessActivity | None:
        """Returns the activity of the harness's processes; None if the processes aren't visible or
        have exited.
        """

    @property
    def log_hint(self) -> str:
        """Hint for messages about where to find more information about a harness that didn't connect;
        empty if the runner's log has all output.
        """

    def has_idle_interpreter(self, connection: SdkConnection) -> bool | None:
        """Returns True if the interpreter that the harness shares with other harnesses was idle since
        the last call; None if unknown.

        For example, the interpreter is idle if user code sleeps or waits for an answer. The first
        call returns None.
        """

    def inspect_harness(self, connection: SdkConnection) -> None:
        """Collects information that the shutdown of the harness needs, before the control stream
        ends. Afterwards the information is unavailable.

        The control stream must be open. The first call takes milliseconds, and later calls do
        nothing.
        """

    def wait_until_torn_down(self, limit: float, connection: SdkConnection) -> None:
        """Waits until the harness has torn down its DoFns. Called after the control stream has
        ended.

        Args:
            limit: the time limit in seconds.
            connection: the server side of the connection to the harness.
        """

    def stop(self) -> None:
        """Stops the harness, by force if necessary; never raises an exception."""


def create_launcher(
    environment_id: str,
    environment: Environment,
    worker_id: str,
    logs: LogSink,
    on_output: Callable[[str], None],
    on_external_worker: Callable[[str, str], None],
    is_connected: Callable[[], bool],
) -> Launcher:
    """Returns a launcher for the kind of an environment.

    Args:
        environment_id: id of the environment, for error messages.
        environment: the environment, which must not be of the kind ``anyof``.
        worker_id: the harness's name on its streams.
        logs: receives the output of the harness.
        on_output: called with every line of output, which failure messages quote.
        on_external_worker: called with endpoint and worker id before the request for an external
            worker.
        is_connected: returns whether the harness has connected. Standard output before that time is
            from the installation of packages, and not from user code.

    Raises:
        UnsupportedEnvironment: Harnesses of this kind can't run on this machine.
    """
    prints = _create_output_handler(environment_id, logs, on_output, is_connected)
    needs_preparation = has_packages(environment.artifacts)
    match environment.urn:
        case urns.EXTERNAL:
            payload = environment.payload
            return ExternalWorker(environment_id, payload, worker_id, on_external_worker)
        case urns.PROCESS:
            command, env = parse_process_payload(environment_id, environment.payload)
            return ProcessWorker(
                environment_id, command, env, worker_id, prints, needs_preparation=needs_preparation
            )
        case urns.EMBEDDED_PYTHON:
            return ProcessWorker(
                environment_id, _BOOT, {}, worker_id, prints, needs_preparation=needs_preparation
            )
        case urns.DOCKER:
            return DockerWorker(environment_id, environment.payload, worker_id, prints)
        case urn:
            raise UnsupportedEnvironment(
                f"the environment {environment_id!r} has the unknown kind {urn!r}; set"
                " --environment_type to LOOPBACK, EXTERNAL, PROCESS or DOCKER"
            )


def _create_output_handler(
    environment_id: str,
    logs: LogSink,
    on_output: Callable[[str], None],
    is_connected: Callable[[], bool],
) -> OutputHandler:
    """Returns a function that passes each line of output to the log and to ``on_output``.

    A line that a connected harness writes to its standard output is a print of user code.
    """
    budget = LineBudget()

    def handle_line(line: str, is_error: bool) -> None:
        on_output(line)
        excess = None if is_error or not is_connected() else budget.count_printed_line()
        if excess is None:
            where = f"output of the process of environment {environment_id}"
            now = time.time_ns() // 1_000_000
            logs.log_records([LogRecord(Severity.INFO, now, line, location=where)])
            return
        notes = [describe_excess_lines(excess)] if excess else []
        logs.log_records([make_print_record(text) for text in (*notes, line)])

    return handle_line
