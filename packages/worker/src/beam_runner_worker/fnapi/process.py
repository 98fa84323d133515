"""SDK harnesses of PROCESS environments: a command that follows Beam's contract for boot programs.

The command leads a process group of its own. A shell beside it, in the same group, reads a pipe
that only this process can write to; when this process ends, however it ends, the read ends too and
the shell kills the group. So no harness, nor its files, outlive the process it works for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

from beam_runner_worker._protos import beam_runner_api_pb2
from beam_runner_worker.errors import HarnessError, UnsupportedEnvironment
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.ports import LogSink
from beam_runner_worker.records import LogRecord, Severity

# By way of descriptor 3: a command in the background has no standard input, and not every shell
# can name a descriptor of two digits.
_GUARDED = 'exec 3<&0 </dev/null; (read -r _ <&3; rm -rf -- "$0"; kill -KILL 0) & exec "$@" 3<&-'
_TERMINATE_SECONDS = 1.0
_KILL_SECONDS = 5.0


class ProcessWorker:
    """One harness process.

    Args:
        environment_id: for messages.
        payload: a serialized ``ProcessPayload``.
        worker_id: the harness's name on its streams.
        logs: takes what the process prints, line by line.
        on_output: takes the lines, too.

    Raises:
        UnsupportedEnvironment: the environment is for another operating system.
    """

    def __init__(
        self,
        environment_id: str,
        payload: bytes,
        worker_id: str,
        logs: LogSink,
        on_output: Callable[[str], None],
    ) -> None:
        parsed = beam_runner_api_pb2.ProcessPayload.FromString(payload)
        here = "darwin" if sys.platform == "darwin" else "linux"
        if parsed.os and parsed.os.lower() != here:
            raise UnsupportedEnvironment(
                f"the environment {environment_id!r} is a process for {parsed.os!r}, but this "
                f"machine runs {here!r}"
            )
        if not parsed.command:
            raise UnsupportedEnvironment(
                f"the environment {environment_id!r} is a process without a command; give one "
                'as --environment_config=\'{"command": "/path/to/boot"}\''
            )
        self._environment_id = environment_id
        self._command = parsed.command
        self._env = dict(parsed.env)
        self._worker_id = worker_id
        self._logs = logs
        self._on_output = on_output
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: int | None = None
        self._reader: threading.Thread | None = None
        self._directory: str | None = None

    def start(self, endpoint: str) -> None:
        """Starts the command.

        Raises:
            HarnessError: there is no such command, or it can't be executed.
        """
        if shutil.which(self._command) is None:
            raise HarnessError(
                f"the command {self._command!r} of the environment {self._environment_id!r} is "
                "no executable file on this machine"
            )
        flags = [f"--id={self._worker_id}"]
        for service in ("logging", "artifact", "provision", "control"):
            flags.append(f"--{service}_endpoint={endpoint}")
        self._directory = tempfile.mkdtemp(prefix="beam-sdk-")
        guarded, self._guard = os.pipe()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDED, self._directory, self._command, *flags],
                stdin=guarded,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "WORKER_ID": self._worker_id,
                    "SEMI_PERSISTENT_DIRECTORY": self._directory,
                    **self._env,
                },
                process_group=0,
            )
        finally:
            os.close(guarded)
        self._reader = threading.Thread(target=self._read_output, name="fnapi-output", daemon=True)
        self._reader.start()

    def _read_output(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = line.decode("utf-8", "replace").rstrip()
            self._on_output(text)
            self._logs.log(
                [
                    LogRecord(
                        Severity.INFO,
                        time.time_ns() // 1_000_000,
                        text,
                        location=f"output of the process of environment {self._environment_id}",
                    )
                ]
            )

    def failure(self, limit: float = 0.0) -> str | None:
        """The exit code of a process that has ended, or ends within the limit."""
        if self._process is None:
            return None
        try:
            code = self._process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        if self._reader is not None:
            self._reader.join(_KILL_SECONDS)  # so that its last words are there to be told
        return f"its process {self._command!r} ended with exit code {code}"

    def wait_torn_down(self, limit: float, connection: SdkConnection) -> None:
        """Waits until the process has ended."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(limit)

    def stop(self) -> None:
        """Ends the process group: SIGTERM, and SIGKILL a second later."""
        if self._process is not None:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_TERMINATE_SECONDS)
            self._signal(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILL_SECONDS)
        if self._guard is not None:
            os.close(self._guard)
            self._guard = None
        if self._reader is not None:
            self._reader.join(_KILL_SECONDS)
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
