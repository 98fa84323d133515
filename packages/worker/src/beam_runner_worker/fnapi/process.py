"""SDK harnesses as processes: a command that implements Beam's contract for boot programs."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

from beam_runner_worker._protos import beam_runner_api_pb2
from beam_runner_worker.errors import HarnessError, UnsupportedEnvironment
from beam_runner_worker.fnapi.activity import measure_process_activity
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.guarded import GuardedProcess
from beam_runner_worker.fnapi.starting import HarnessActivity

CANNOT_PREPARE = os.EX_CONFIG
"""The exit code of a boot program that can't install what the environment needs."""


class SeparateProcess:
    """Base of harnesses with a separate process: its exit is visible, its output is logged, and it has
    its own interpreter.

    Args:
        called: a phrase for the harness in messages.
        on_output: called with every line that the process prints.
    """

    log_hint = ""

    def __init__(self, called: str, on_output: Callable[[str], None]) -> None:
        self.description = called
        self._process = GuardedProcess(on_output)

    def explain_failure(self, limit: float = 0.0) -> str | None:
        """Returns a sentence with the exit code of a process that has exited, or exits within the limit."""
        code = self._process.wait(limit)
        return None if code is None else f"its {self.description} exited with code {code}"

    def has_idle_interpreter(self, connection: SdkConnection) -> None:
        """Returns None, because nothing is known."""

    def inspect_harness(self, connection: SdkConnection) -> None:
        """Does nothing."""

    def wait_until_torn_down(self, limit: float, connection: SdkConnection) -> None:
        """Waits until the process has exited."""
        self._process.wait(limit)


class ProcessWorker(SeparateProcess):
    """One harness process, which exits with this process for any reason; its files are removed, too.

    Args:
        environment_id: id of the environment, for error messages.
        command: program and first arguments.
        env: additional environment variables.
        worker_id: the harness's name on its streams.
        on_output: called with every line that the process prints.
        prepares: whether it has packages to install before it connects.
    """

    def __init__(
        self,
        environment_id: str,
        command: Sequence[str],
        env: Mapping[str, str],
        worker_id: str,
        on_output: Callable[[str], None],
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
        """Returns the activity of the command and its descendants."""
        process = self._process.pid
        return None if process is None else measure_process_activity(process)

    @property
    def is_failure_permanent(self) -> bool:
        """Whether another process would exit for the same reason."""
        return self._process.wait() == CANNOT_PREPARE

    def start(self, endpoint: str) -> None:
        """Starts the command.

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
            (*self._command, *create_boot_flags(self._worker_id, endpoint)),
            env,
            shlex.join(("rm", "-rf", "--", self._directory)),
        )

    def stop(self) -> None:
        """Stops the process group: sends SIGTERM, and SIGKILL 1 s later."""
        self._process.stop()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def create_boot_flags(worker_id: str, endpoint: str) -> tuple[str, ...]:
    """Returns the arguments of a boot program in Beam's contract for containers: its id and the services."""
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
