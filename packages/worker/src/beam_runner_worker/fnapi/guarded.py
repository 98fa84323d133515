"""Start of a command whose processes always exit together with this process, even if this process is
killed.

The command runs in its own process group. A shell in this group reads a pipe that only this process
holds open for writing. When this process exits, the read ends. Then the shell runs a cleanup
command and kills the group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from beam_runner_model.threads import start_essential_thread

# The guard uses descriptor 3, because a background command has no standard input, and not every
# shell supports descriptors of two digits. Only the command holds the output, so that the output
# ends with the command.
_GUARDED = (
    'exec 3<&0 </dev/null; (read -r _ <&3; eval "$0"; kill -KILL 0) >/dev/null 2>&1 & '
    'exec "$@" 3<&-'
)
_TERMINATE_SECONDS = 1.0
_KILL_SECONDS = 5.0
_CHECK_SECONDS = 0.01


class GuardedProcess:
    """Command and its descendants, which run in one process group.

    Args:
        on_output: called with every line of output, on a separate thread.
    """

    def __init__(self, on_output: Callable[[str], None]) -> None:
        self._on_output = on_output
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: int | None = None
        self._reader: threading.Thread | None = None

    def start(self, command: Sequence[str], env: Mapping[str, str], last_will: str) -> None:
        """Starts the command. Must be called only once.

        Args:
            command: program and arguments.
            env: the environment variables of the command.
            last_will: cleanup command that a shell runs if this process exits without a call of
                :meth:`stop`.

        Raises:
            OSError: The operating system can't start a process.
        """
        guarded, self._guard = os.pipe()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDED, last_will, *command],
                stdin=guarded,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=env,
                process_group=0,
            )
        finally:
            os.close(guarded)
        # Always read the output, because a full pipe would block the command.
        self._reader = start_essential_thread(
            self._read_output, "fnapi-output", lambda _: self._drop_output()
        )

    @property
    def pid(self) -> int | None:
        """Process id of the command; None before :meth:`start`."""
        return None if self._process is None else self._process.pid

    def wait(self, limit: float = 0.0) -> int | None:
        """Returns the exit code of the command after its output is read; None if the command doesn't
        exit within the time limit.

        Args:
            limit: the time limit in seconds.
        """
        if self._process is None:
            return None
        try:
            code = self._process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        if self._reader is not None:
            self._reader.join(_KILL_SECONDS)
        return code

    def stop(self) -> None:
        """Stops the process group: sends SIGTERM, and SIGKILL 1 s later."""
        if self._process is not None:
            self._signal_group(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_TERMINATE_SECONDS)
            self._signal_group(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILL_SECONDS)
                _reap_orphans(self._process.pid)
        if self._guard is not None:
            os.close(self._guard)
            self._guard = None
        if self._reader is not None:
            self._reader.join(_KILL_SECONDS)
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def _read_output(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._on_output(line.decode("utf-8", "replace").rstrip())

    def _drop_output(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for _ in self._process.stdout:
            continue

    def _signal_group(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _reap_orphans(group: int) -> None:
    """Reaps the processes of a killed group that have become children of this process.

    If this process is a subreaper, as workers are, it adopts the orphans when the command exits.
    Without this function the orphans would stay zombies until this process exits.
    """
    limit = time.monotonic() + _KILL_SECONDS
    with contextlib.suppress(ChildProcessError):  # no child is left
        while time.monotonic() < limit:
            if os.waitpid(-group, os.WNOHANG)[0] == 0:
                time.sleep(_CHECK_SECONDS)
