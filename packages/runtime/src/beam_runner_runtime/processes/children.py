"""The processes that workers of this machine are forked from and watched by, as the server that started them sees it."""

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
from beam_runner_model.threads import start_essential

from beam_runner_runtime.channel.messages import Endpoint
from beam_runner_runtime.processes.parent import READY
from beam_runner_runtime.processes.zygote import Zygote
from beam_runner_runtime.shutdown.causes import Event
from beam_runner_runtime.shutdown.detections import Detector, notice
from beam_runner_runtime.shutdown.life import Life
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.shutdown.states import ForkServerState

_LOGGER = logging.getLogger(__name__)


class Children:
    """Forks, kills and watches processes by numbers. Methods may be called from any thread.

    If the process that they are forked from ends by itself, they end with it, and another one is started.

    Args:
        on_end: is called, on a thread of this object's, with the number of a process that has ended, and its exit
            code, or minus the signal that ended it.
        zygote: what they are forked from at first; without it, such a process is started.
    """

    def __init__(self, on_end: Callable[[int, int], None], zygote: Zygote | None = None) -> None:
        self._on_end = on_end
        self._zygote = zygote
        self._parent: subprocess.Popen[str] | Zygote | None = None
        self._numbers: set[int] = set()
        self._ready = threading.Event()
        self._writing = threading.Lock()
        self._stopped = False
        self._lost = ""
        self._life = Life(ForkServerState.IMPORTING, "the fork server")

    @property
    def is_alive(self) -> bool:
        """Whether processes can be forked, now or when another parent has been started."""
        return self._parent is not None and not self._stopped and not self._lost

    def start(self) -> None:
        """Waits until the process that they are forked from has imported what they need.

        Raises:
            Unavailable: it does not start, or `kill` was called meanwhile.
        """
        self._parent = self._zygote or _started()
        start_essential(self._watch, "workers", self._break)
        if self._stopped:
            self.kill()
        is_ready = self._ready.wait(LIMITS.fork_server_start_seconds)
        if not is_ready or not self.is_alive:
            late = f"it was not ready within {LIMITS.fork_server_start_seconds:.0f} s"
            why = self._lost or ("it was stopped" if self._stopped else late)
            self.kill()
            raise Unavailable(f"the process that workers are forked from did not start: {why}")

    def fork(self, number: int, endpoint: Endpoint) -> None:
        """Makes the process with a number, which is to call this one there."""
        self._order(f"fork {number} {json.dumps(attrs.asdict(endpoint))}", number)

    def kill_one(self, number: int) -> None:
        """Kills a process, if it is there."""
        self._order(f"kill {number}")

    def stop(self) -> None:
        """Ends all of them, and waits for it within a limit; again does nothing."""
        parent = self._start_no_more()
        if parent is None or parent.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):
            parent.stdin.close()
        try:
            parent.wait(LIMITS.fork_server_stop_seconds)
        except subprocess.TimeoutExpired:
            _LOGGER.warning("worker processes did not end in time and are killed")
            self.kill()

    def kill(self) -> None:
        """Ends all of them soon: who does not end by itself is killed."""
        parent = self._start_no_more()
        if parent is not None:
            parent.terminate()

    def _start_no_more(self) -> subprocess.Popen[str] | Zygote | None:
        """Has no other parent started; returns the last one."""
        with self._writing:
            self._stopped = True
            self._life.take(Event.STOP_REQUESTED)
            return self._parent

    def _order(self, line: str, forks: int | None = None) -> None:
        """Writes a line. ``forks`` is the number of the process that it makes, whose end is told in any case."""
        with self._writing:
            assert self._parent is not None
            assert self._parent.stdin is not None
            if forks is not None:
                self._numbers.add(forks)
            # If nobody reads the line, the parent has ended, which `_watch` notices.
            with contextlib.suppress(OSError, ValueError):
                self._parent.stdin.write(f"{line}\n")
                self._parent.stdin.flush()

    def _watch(self) -> None:
        """Reads what the parent tells, and starts another one each time that it has ended by itself."""
        failures = 0
        while True:
            assert self._parent is not None
            failures = 0 if self._read(self._parent) else failures + 1
            code = self._parent.wait()
            how = f"it ended with {'signal' if code < 0 else 'exit code'} {abs(code)}"
            if failures == LIMITS.fork_server_attempts:
                self._lose(f"{how}, {LIMITS.fork_server_attempts} times before it was ready")
            if self._lost or not self._start_again(how):
                self._ready.set()
                return

    def _start_again(self, how: str) -> bool:
        """Starts another parent, and tells that all processes of the last one have ended.

        Returns:
            False if `stop` or `kill` ended the last one.
        """
        with self._writing:
            self._life.take(Event.EXITED)
            if self._stopped:
                return False
            notice(Detector.FORK_SERVER, "the fork server")
            _LOGGER.warning(
                "the process that workers are forked from is lost: %s. The server starts another one, and tries"
                " again what its workers ran",
                how,
            )
            self._parent = _started()
            lost, self._numbers = self._numbers, set()
        for number in sorted(lost):
            self._on_end(number, -signal.SIGKILL)
        return True

    def _break(self, error: BaseException) -> None:
        """Ends all of them, and the server with them: nobody would hear of the end of a worker any more."""
        self._lose(f"{type(error).__name__}: {error}")
        self._ready.set()
        self.kill()

    def _lose(self, why: str) -> None:
        """Starts no other parent: the server ends."""
        self._lost = why
        self._life.take(Event.LATE)

    def _read(self, parent: subprocess.Popen[str] | Zygote) -> bool:
        """Reads what a parent tells until it has ended; returns whether it was ready."""
        assert parent.stdout is not None
        is_ready = False
        with parent.stdout:
            for line in parent.stdout:
                word, *numbers = line.split()
                if word == READY:
                    is_ready = True
                    self._life.take(Event.BEGUN)
                    self._ready.set()
                    continue
                number, code = map(int, numbers)
                with self._writing:
                    self._numbers.discard(number)
                self._on_end(number, code)
        return is_ready


def _started() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "beam_runner_runtime.processes.parent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a Ctrl-C in the terminal is for the server alone
    )
