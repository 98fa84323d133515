"""Client of the fork server, the process that forks and watches the worker processes of this machine."""

from __future__ import annotations

import contextlib
import json
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import attrs
from beam_runner_model.errors import Unavailable
from beam_runner_model.threads import start_essential_thread

from beam_runner_runtime.channel.messages import Endpoint
from beam_runner_runtime.processes.forked_process import ForkedProcess
from beam_runner_runtime.processes.parent import READY
from beam_runner_runtime.shutdown.causes import ShutdownEvent
from beam_runner_runtime.shutdown.detections import Detector, log_detection
from beam_runner_runtime.shutdown.life import StateMachine
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.shutdown.states import ForkServerState

_LOGGER = logging.getLogger(__name__)


class WorkerProcesses:
    """Starts and kills worker processes of this machine through a fork server. Thread-safe.

    If the fork server exits unexpectedly, its workers exit too, and the client starts another fork
    server.

    Args:
        on_end: callback with the number of an exited process and its exit code (negative for a
            signal). A thread of this object calls it.
        fork_server: the first fork server; None to start one.
    """

    def __init__(
        self, on_end: Callable[[int, int], None], fork_server: ForkedProcess | None = None
    ) -> None:
        self._on_end = on_end
        self._fork_server = fork_server
        self._parent: subprocess.Popen[str] | ForkedProcess | None = None
        self._numbers: set[int] = set()
        self._ready = threading.Event()
        self._writing = threading.Lock()
        self._stopped = False
        self._lost = ""
        self._life = StateMachine(ForkServerState.IMPORTING, "the fork server")

    @property
    def is_alive(self) -> bool:
        """Whether processes can be forked, now or after the start of another fork server."""
        return self._parent is not None and not self._stopped and not self._lost

    def start(self) -> None:
        """Waits until the fork server has imported the modules of workers.

        Raises:
            Unavailable: The fork server doesn't start, or another thread called `kill`.
        """
        self._parent = self._fork_server or _start_fork_server()
        start_essential_thread(self._watch_fork_server, "workers", self._stop_after_error)
        if self._stopped:
            self.kill()
        is_ready = self._ready.wait(LIMITS.fork_server_start_seconds)
        if not is_ready or not self.is_alive:
            late = f"it was not ready within {LIMITS.fork_server_start_seconds:.0f} s"
            why = self._lost or ("it was stopped" if self._stopped else late)
            self.kill()
            raise Unavailable(
                f"the fork server, from which worker processes are forked, did not start: {why}"
            )

    def fork_worker(self, number: int, endpoint: Endpoint) -> None:
        """Forks the process with this number, which connects to the endpoint."""
        self._send_command(f"fork {number} {json.dumps(attrs.asdict(endpoint))}", number)

    def kill_worker(self, number: int) -> None:
        """Kills the worker process with this number, if the process exists."""
        self._send_command(f"kill {number}")

    def stop(self) -> None:
        """Ends all processes, and waits up to ``fork_server_stop_seconds`` until the processes have
        exited. Idempotent.
        """
        parent = self._prevent_restart()
        if parent is None or parent.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):
            parent.stdin.close()
        try:
            parent.wait(LIMITS.fork_server_stop_seconds)
        except subprocess.TimeoutExpired:
            _LOGGER.warning("worker processes did not exit in time; killing them")
            self.kill()

    def kill(self) -> None:
        """Ends the fork server and all workers, without waiting. Another process (the reaper) kills
        those that remain.
        """
        parent = self._prevent_restart()
        if parent is not None:
            parent.terminate()

    def _prevent_restart(self) -> subprocess.Popen[str] | ForkedProcess | None:
        """Prevents the start of another fork server, and returns the current one."""
        with self._writing:
            self._stopped = True
            self._life.apply_cause(ShutdownEvent.STOP_REQUESTED)
            return self._parent

    def _send_command(self, line: str, forks: int | None = None) -> None:
        """Sends a command to the fork server, as a line of text.

        ``forks`` is the number of the process that the command starts. The exit of that process is
        reported even if the command can't be sent.
        """
        with self._writing:
            assert self._parent is not None
            assert self._parent.stdin is not None
            if forks is not None:
                self._numbers.add(forks)
            # Ignore a failed write: the fork server has exited, and `_watch_fork_server` notices
            # the exit.
            with contextlib.suppress(OSError, ValueError):
                self._parent.stdin.write(f"{line}\n")
                self._parent.stdin.flush()

    def _watch_fork_server(self) -> None:
        """Reads the reports of the fork server. If the fork server exits unexpectedly, starts another fork server."""
        failures = 0
        while True:
            assert self._parent is not None
            failures = 0 if self._read_reports(self._parent) else failures + 1
            code = self._parent.wait()
            how = f"it ended with {'signal' if code < 0 else 'exit code'} {abs(code)}"
            if failures == LIMITS.fork_server_attempts:
                self._mark_lost(f"{how}, {LIMITS.fork_server_attempts} times before it was ready")
            if self._lost or not self._restart_fork_server(how):
                self._ready.set()
                return

    def _restart_fork_server(self, how: str) -> bool:
        """Starts another fork server, and reports that all workers of the previous fork server have
        exited.

        Returns:
            False if `stop` or `kill` ended the previous fork server, so that no other is started.
        """
        with self._writing:
            self._life.apply_cause(ShutdownEvent.EXITED)
            if self._stopped:
                return False
            log_detection(Detector.FORK_SERVER, "the fork server")
            _LOGGER.warning(
                "the fork server is lost: %s. The server starts another fork server, and retries "
                "the bundles of the lost worker processes",
                how,
            )
            self._parent = _start_fork_server()
            lost, self._numbers = self._numbers, set()
        for number in sorted(lost):
            self._on_end(number, -signal.SIGKILL)
        return True

    def _stop_after_error(self, error: BaseException) -> None:
        """Ends all processes and the server after an unexpected error, because the server wouldn't
        notice the exits of workers anymore.
        """
        self._mark_lost(f"{type(error).__name__}: {error}")
        self._ready.set()
        self.kill()

    def _mark_lost(self, why: str) -> None:
        """Records that the fork server is permanently lost, so that the job server stops."""
        self._lost = why
        self._life.apply_cause(ShutdownEvent.LATE)

    def _read_reports(self, parent: subprocess.Popen[str] | ForkedProcess) -> bool:
        """Handles the reports of a fork server until the fork server exits. Returns whether it had
        reported that it's ready.
        """
        assert parent.stdout is not None
        is_ready = False
        with parent.stdout:
            for line in parent.stdout:
                word, *numbers = line.split()
                if word == READY:
                    is_ready = True
                    self._life.apply_cause(ShutdownEvent.BEGUN)
                    self._ready.set()
                    continue
                number, code = map(int, numbers)
                with self._writing:
                    self._numbers.discard(number)
                self._on_end(number, code)
        return is_ready


def _start_fork_server() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "beam_runner_runtime.processes.parent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that only the server gets a Ctrl-C of the terminal
    )
