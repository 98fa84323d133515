"""Starts and stops SDK harnesses, one way for every kind of environment.

| environment | harness |
|---|---|
| EXTERNAL | a worker of a pool, also the LOOPBACK of the program that submitted the job |
| PROCESS | a command |
| DOCKER | a container of an image |
| embedded Python | a process of this interpreter, with the packages that were staged |
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
from beam_runner_worker.fnapi.process import ProcessWorker, command_of
from beam_runner_worker.fnapi.starting import Activity
from beam_runner_worker.log_records import LogRecord, Severity
from beam_runner_worker.ports import LogSink

_BOOT = (sys.executable, "-m", "beam_runner_worker.fnapi.boot")


class Launcher(Protocol):
    """One SDK harness from its start to its end; :meth:`start` is called once."""

    @property
    def called(self) -> str:
        """It, in messages."""

    @property
    def prepares(self) -> bool:
        """Whether it may have to fetch or install something that takes minutes, before it connects."""

    @property
    def hopeless(self) -> bool:
        """Whether a harness that did not come failed at what would fail anywhere, and again."""

    def start(self, endpoint: str) -> None:
        """Asks for the harness to come to the services at ``endpoint``; does not wait for it.

        Raises:
            HarnessError: it can't be started.
        """

    def failure(self, limit: float = 0.0) -> str | None:
        """Why the harness will never come, or is gone; None as long as it may come or be there.

        Args:
            limit: how long to wait for a harness to be gone, in seconds.
        """

    def activity(self) -> Activity | None:
        """What its processes do; None where that can't be seen from here, or they are gone."""

    @property
    def whereabouts(self) -> str:
        """Where more may be found on a harness that did not come; empty if it tells all itself."""

    def waits(self, connection: SdkConnection) -> bool | None:
        """Whether the interpreter that the harness shares with others has had time for them lately.

        User code sleeps, say, or waits for an answer. None if that is not known; it takes two calls
        a short while apart to know it.
        """

    def look(self, connection: SdkConnection) -> None:
        """Finds out what can't be found out once the control stream of the harness has ended.

        Needs that stream. Costs milliseconds once, then nothing.
        """

    def wait_torn_down(self, limit: float, connection: SdkConnection) -> None:
        """Waits until a harness whose control stream has ended has called every teardown.

        Args:
            limit: in seconds, at most.
            connection: the runner's end of the harness.
        """

    def stop(self) -> None:
        """Ends the harness, if need be by force; never raises."""


def launcher_for(
    environment_id: str,
    environment: Environment,
    worker_id: str,
    logs: LogSink,
    on_output: Callable[[str], None],
    on_external_worker: Callable[[str, str], None],
) -> Launcher:
    """The launcher for an environment's kind.

    Args:
        environment_id: for messages.
        environment: its ``anyof`` already resolved.
        worker_id: the harness's name on its streams.
        logs: takes what a harness prints.
        on_output: takes every line that a harness prints, for messages about its failure.
        on_external_worker: told endpoint and worker id before an external worker is asked for.

    Raises:
        UnsupportedEnvironment: harnesses of that kind can't be started here.
    """
    prints = _printing(environment_id, logs, on_output)
    prepares = has_packages(environment.artifacts)
    match environment.urn:
        case urns.EXTERNAL:
            payload = environment.payload
            return ExternalWorker(environment_id, payload, worker_id, on_external_worker)
        case urns.PROCESS:
            command, env = command_of(environment_id, environment.payload)
            return ProcessWorker(environment_id, command, env, worker_id, prints, prepares=prepares)
        case urns.EMBEDDED_PYTHON:
            return ProcessWorker(environment_id, _BOOT, {}, worker_id, prints, prepares=prepares)
        case urns.DOCKER:
            return DockerWorker(environment_id, environment.payload, worker_id, prints)
        case urn:
            raise UnsupportedEnvironment(
                f"the environment {environment_id!r} is of the kind {urn!r}, which this runner does "
                "not know; name an environment_type of LOOPBACK, EXTERNAL, PROCESS or DOCKER"
            )


def _printing(
    environment_id: str, logs: LogSink, on_output: Callable[[str], None]
) -> Callable[[str], None]:
    """Takes the lines that a harness prints, for the log and for messages about its failure."""

    def take(line: str) -> None:
        on_output(line)
        where = f"output of the process of environment {environment_id}"
        now = time.time_ns() // 1_000_000
        logs.log([LogRecord(Severity.INFO, now, line, location=where)])

    return take
