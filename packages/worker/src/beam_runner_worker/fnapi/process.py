"""SDK harnesses in separate processes, started by a command that implements Beam's contract for boot programs."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence

import attrs
from beam_runner_model.process_exits import ProcessExit

from beam_runner_worker._protos import beam_runner_api_pb2
from beam_runner_worker.errors import HarnessError, UnsupportedEnvironment
from beam_runner_worker.fnapi.activity import measure_process_activity
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.guarded import GuardedProcess, OutputHandler
from beam_runner_worker.fnapi.starting import HarnessActivity
from beam_runner_worker.out_of_memory import OutOfMemoryDetector

CANNOT_PREPARE = os.EX_CONFIG
"""Exit code of a boot program that can't install the packages of the environment."""


class SeparateProcess:
    """Base of launchers that run the harness in a separate process, whose exit and output this process
    observes.

    Args:
        called: noun phrase that names the harness in messages.
        on_output: called with every line that the process prints.
    """

    log_hint = ""

    def __init__(self, called: str, on_output: OutputHandler) -> None:
        self.description = called
        self._process = GuardedProcess(on_output)
        self._kills = OutOfMemoryDetector()

    def explain_failure(self, limit: float = 0.0) -> str | None:
        """Returns a message with the exit code or signal if the process has exited, or exits within the time
        limit; otherwise None.
        """
        code = self._process.wait(limit)
        if code is None:
            return None
        end = ProcessExit(code)
        if end.was_killed:
            end = attrs.evolve(end, lacked_memory=self._kills.has_recent_kill())
        return f"its {self.description} {end.text}"

    def has_idle_interpreter(self, connection: SdkConnection) -> None:
        """Returns None, because a separate process shares no interpreter with other harnesses."""

    def inspect_harness(self, connection: SdkConnection) -> None:
        """Does nothing, because stopping a separate process needs no information about the harness."""

    def wait_until_torn_down(self, limit: float, connection: SdkConnection) -> None:
        """Waits at most ``limit`` seconds until the process has exited."""
        self._process.wait(limit)


class ProcessWorker(SeparateProcess):
    """SDK harness in a process that a command starts. The process exits, and its files are removed,
    when this process exits for any reason.

    Args:
        environment_id: id of the environment, for error messages.
        command: the program and its first arguments.
        env: additional environment variables.
        worker_id: the harness's name on its streams.
        on_output: called with every line that the process prints.
        needs_preparation: whether the process must install packages before it connects.
    """

    def __init__(
        self,
        environment_id: str,
        command: Sequence[str],
        env: Mapping[str, str],
        worker_id: str,
        on_output: OutputHandler,
        *,
        needs_preparation: bool = False,
    ) -> None:
        self.needs_preparation = needs_preparation
        self._environment_id = environment_id
        self._command = tuple(command)
        self._env = dict(env)
        self._worker_id = worker_id
        super().__init__(f"process {shlex.join(self._command)!r}", on_output)
        self._directory: str | None = None

    def measure_activity(self) -> HarnessActivity | None:
        """Returns the activity of the process and its descendants; None if the process isn't running."""
        process = self._process.pid
        return None if process is None else measure_process_activity(process)

    @property
    def is_failure_permanent(self) -> bool:
        """Whether another process would fail in the same way, because the packages can't be installed."""
        return self._process.wait() == CANNOT_PREPARE

    def start(self, endpoint: str) -> None:
        """Starts the command that runs the SDK harness.

        Raises:
            HarnessError: the command doesn't exist, or can't be executed.
        """
        if shutil.which(self._command[0]) is None:
            raise HarnessError(
                f"the command {self._command[0]!r} of the environment"
                f" {self._environment_id!r} isn't an executable file on this machine"
            )
        self._directory = tempfile.mkdtemp(prefix="beam-sdk-")
        env = {
            **os.environ,
            "WORKER_ID": self._worker_id,
            "SEMI_PERSISTENT_DIRECTORY": self._directory,
            **self._env,
        }
        self._process.start(
            (*self._command, *create_boot_arguments(self._worker_id, endpoint)),
            env,
            shlex.join(("rm", "-rf", "--", self._directory)),
        )

    def stop(self) -> None:
        """Stops the process group: sends SIGTERM, and SIGKILL 1 s later."""
        self._process.stop()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def create_boot_arguments(worker_id: str, endpoint: str) -> tuple[str, ...]:
    """Returns the arguments of a boot program in Beam's contract for containers: the worker id and the
    service addresses.
    """
    services = ("logging", "artifact", "provision", "control")
    return (f"--id={worker_id}", *(f"--{service}_endpoint={endpoint}" for service in services))


def parse_process_payload(
    environment_id: str, payload: bytes
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Returns the command and environment variables of a PROCESS environment.

    Args:
        environment_id: id of the environment, for error messages.
        payload: a serialized ``ProcessPayload``.

    Raises:
        UnsupportedEnvironment: the payload is for another operating system, or names no command.
    """
    parsed = beam_runner_api_pb2.ProcessPayload.FromString(payload)
    here = "darwin" if sys.platform == "darwin" else "linux"
    if parsed.os and parsed.os.lower() != here:
        raise UnsupportedEnvironment(
            f"the environment {environment_id!r} is a process for {parsed.os!r}, but this "
            f"machine runs {here!r}"
        )
    if not parsed.command:
        raise UnsupportedEnvironment(
            f"the environment {environment_id!r} is a process without a command; set"
            f' the command as --environment_config=\'{{"command": "/path/to/boot"}}\''
        )
    return (parsed.command,), dict(parsed.env)
