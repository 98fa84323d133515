"""Launchers of SDK harnesses, one for every kind of environment.

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
from beam_runner_worker.fnapi.process import ProcessWorker, parse_process_payload
from beam_runner_worker.fnapi.starting import HarnessActivity
from beam_runner_worker.log_records import LogRecord, Severity
from beam_runner_worker.ports import LogSink

_BOOT = (sys.executable, "-m", "beam_runner_worker.fnapi.boot")


class Launcher(Protocol):
    """One SDK harness from its start to its end; :meth:`start` is called once."""

    @property
    def description(self) -> str:
        """A phrase for the harness in messages."""

    @property
    def needs_preparation(self) -> bool:
        """Whether the harness may download or install something for minutes before it connects."""

    @property
    def is_failure_permanent(self) -> bool:
        """Whether a harness that didn't connect would fail in the same way on any machine, and again."""

    def start(self, endpoint: str) -> None:
        """Starts the harness, which connects to the services at ``endpoint``; doesn't wait for it.

        Raises:
            HarnessError: the harness can't be started.
        """

    def explain_failure(self, limit: float = 0.0) -> str | None:
        """Returns why the harness will never connect, or is gone; None while it may connect or runs.

        Args:
            limit: how long to wait for the end of the harness, in seconds.
        """

    def measure_activity(self) -> HarnessActivity | None:
        """Returns the activity of its processes; None if they aren't visible, or are gone."""

    @property
    def log_hint(self) -> str:
        """A phrase that says where to find more about a harness that didn't connect; empty if its
        output is complete.
        """

    def has_idle_interpreter(self, connection: SdkConnection) -> bool | None:
        """Returns whether the interpreter that the harness shares with others has been idle recently.

        For example, it is idle if user code sleeps or waits for an answer. Each call compares with the
        call before it, so the first call returns None.
        """

    def inspect_harness(self, connection: SdkConnection) -> None:
        """Inspects the harness for facts that are unavailable after its control stream has ended.

        Needs that stream. Takes milliseconds once, then nothing.
        """

    def wait_until_torn_down(self, limit: float, connection: SdkConnection) -> None:
        """Waits until a harness whose control stream has ended has called all teardowns.

        Args:
            limit: the time limit in seconds.
            connection: the runner's end of the harness.
        """

    def stop(self) -> None:
        """Ends the harness, by force if needed; never raises."""


def create_launcher(
    environment_id: str,
    environment: Environment,
    worker_id: str,
    logs: LogSink,
    on_output: Callable[[str], None],
    on_external_worker: Callable[[str, str], None],
) -> Launcher:
    """Returns the launcher for an environment's kind.

    Args:
        environment_id: the environment, for messages.
        environment: an environment whose ``anyof`` is resolved.
        worker_id: the harness's name on its streams.
        logs: receives the harness's output.
        on_output: called with every line of output, for messages about a failure.
        on_external_worker: called with endpoint and worker id before the request for an external
            worker.

    Raises:
        UnsupportedEnvironment: harnesses of that kind can't be started here.
    """
    prints = _create_output_handler(environment_id, logs, on_output)
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
    environment_id: str, logs: LogSink, on_output: Callable[[str], None]
) -> Callable[[str], None]:
    """Returns a function that passes each line of output to the log and to the record for failure messages."""

    def handle_line(line: str) -> None:
        on_output(line)
        where = f"output of the process of environment {environment_id}"
        now = time.time_ns() // 1_000_000
        logs.log([LogRecord(Severity.INFO, now, line, location=where)])

    return handle_line
