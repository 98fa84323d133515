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
from functools import partial
from typing import IO, TypeAlias

from beam_runner_model.threads import start_essential_thread

# The guard shell reads descriptor 3, because a background command has no standard input, and not
# every shell supports descriptors of two digits. Only the command has the output pipe open, so that
# the output ends when the command exits.
_GUARDED = (
    'exec 3<&0 </dev/null; (read -r _ <&3; eval "$0"; kill -KILL 0) >/dev/null 2>&1 & '
    'exec "$@" 3<&-'
)
_TERMINATE_SECONDS = 1.0
_KILL_SECONDS = 5.0
_CHECK_SECONDS = 0.01


OutputHandler: TypeAlias = Callable[[str, bool], None]
"""A function that gets a line of output, and whether the line is from the standard error."""


class GuardedProcess:
    """Command and its descendants, which run in one process group.

    Args:
        on_output: called with every line of output, and whether the line is from the standard error,
            on a separate thread for each stream.
    """

    def __init__(self, on_output: OutputHandler) -> None:
        self._on_output = on_output
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: int | None = None
        self._readers: list[threading.Thread] = []

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
                stderr=subprocess.PIPE,
                env=env,
                process_group=0,
            )
        finally:
            os.close(guarded)
        # Always read the output, because a full pipe would block the command.
        for stream in (self._process.stdout, self._process.stderr):
            assert stream is not None
            is_error = stream is self._process.stderr
            self._readers.append(
                start_essential_thread(
                    partial(self._read_output, stream, is_error),
                    "fnapi-output",
                    partial(_drop_output, stream),
                )
            )

    @property
    def pid(self) -> int | None:
        """Process id of the command; None before :meth:`start`."""
        return None if self._process is None else self._process.pid

    def wait(self, limit: float = 0.0) -> int | None:
        """Returns the exit code of the command, after reading the command's output; None if the
        command doesn't exit within the time limit.

        Args:
            limit: the time limit in seconds.
        """
        if self._process is None:
            return None
        try:
            code = self._process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        self._join_readers()
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
        self._join_readers()
        if self._process is not None:
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()

    def _join_readers(self) -> None:
        for reader in self._readers:
            reader.join(_KILL_SECONDS)

    def _read_output(self, stream: IO[bytes], is_error: bool) -> None:
        for line in stream:
            self._on_output(line.decode("utf-8", "replace").rstrip(), is_error)

    def _signal_group(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _drop_output(stream: IO[bytes], _: BaseException) -> None:
    for _line in stream:
        continue


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
