"""Starts and stops SDK harnesses, one way for every kind of environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from beam_runner_urns import environments as urns

from beam_runner_worker.errors import UnsupportedEnvironment
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.external import ExternalWorker
from beam_runner_worker.fnapi.process import ProcessWorker
from beam_runner_worker.ports import LogSink
from beam_runner_worker.records import Environment


class Launcher(Protocol):
    """One SDK harness from its start to its end; :meth:`start` is called once."""

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
    if environment.urn == urns.EXTERNAL:
        return ExternalWorker(environment_id, environment.payload, worker_id, on_external_worker)
    if environment.urn == urns.PROCESS:
        return ProcessWorker(environment_id, environment.payload, worker_id, logs, on_output)
    if environment.urn == urns.DOCKER:
        raise UnsupportedEnvironment(
            f"the environment {environment_id!r} asks for a docker container, which this runner "
            "does not start; name an environment_type of LOOPBACK, EXTERNAL or PROCESS"
        )
    raise UnsupportedEnvironment(
        f"the environment {environment_id!r} is of the kind {environment.urn!r}, which this "
        "runner does not know; name an environment_type of LOOPBACK, EXTERNAL or PROCESS"
    )
