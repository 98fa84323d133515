"""The processes that workers of this machine are forked from and watched by, as the server that started them sees it."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial

import attrs
from beam_runner_worker.threads import start_essential

from beam_spark_executor.channel.messages import Endpoint
from beam_spark_executor.processes.parent import READY
from beam_spark_executor.processes.zygote import Zygote
from beam_spark_executor.unavailable import Unavailable

_START_SECONDS = 120.0
_STOP_SECONDS = 10.0
_LOGGER = logging.getLogger(__name__)


class Children:
    """Forks, kills and watches processes by numbers. Methods may be called from any thread.

    Args:
        on_end: is called, on a thread of this object's, with the number of a process that has ended, and its exit
            code, or minus the signal that ended it.
        zygote: what they are forked from; without it, such a process is started.
    """

    def __init__(self, on_end: Callable[[int, int], None], zygote: Zygote | None = None) -> None:
        self._on_end = on_end
        self._zygote = zygote
        self._parent: subprocess.Popen[str] | Zygote | None = None
        self._ready = threading.Event()
        self._writing = threading.Lock()
        self._killed = False

    @property
    def is_alive(self) -> bool:
        """Whether processes can be forked."""
        return self._parent is not None and self._parent.poll() is None

    def start(self) -> None:
        """Waits until the process that they are forked from has imported what they need.

        Raises:
            Unavailable: it does not start, or `kill` was called meanwhile.
        """
        self._parent = self._zygote or _started()
        # Without it nobody would hear of the end of a worker: then all of them end, and the server with them.
        start_essential(partial(self._read, self._parent), "workers", lambda _: self.kill())
        if self._killed:
            self.kill()
        self._ready.wait(_START_SECONDS)
        if not self._ready.is_set() or not self.is_alive:
            self.kill()
            raise Unavailable("the process that workers are forked from did not start")

    def fork(self, number: int, endpoint: Endpoint) -> None:
        """Makes the process with a number, which is to call this one there."""
        self._order(f"fork {number} {json.dumps(attrs.asdict(endpoint))}")

    def kill_one(self, number: int) -> None:
        """Kills a process, if it is there."""
        self._order(f"kill {number}")

    def stop(self) -> None:
        """Ends all of them, and waits for it within a limit; again does nothing."""
        if self._parent is None or self._parent.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):
            self._parent.stdin.close()
        try:
            self._parent.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            _LOGGER.warning("worker processes did not end in time and are killed")
            self.kill()

    def kill(self) -> None:
        """Ends all of them soon: who does not end by itself is killed."""
        self._killed = True
        if self._parent is not None:
            self._parent.terminate()

    def _order(self, line: str) -> None:
        """Writes a line; does nothing if nobody is there to read it, which `is_alive` tells."""
        assert self._parent is not None
        assert self._parent.stdin is not None
        with self._writing, contextlib.suppress(OSError, ValueError):
            self._parent.stdin.write(f"{line}\n")
            self._parent.stdin.flush()

    def _read(self, parent: subprocess.Popen[str] | Zygote) -> None:
        assert parent.stdout is not None
        with parent.stdout:
            for line in parent.stdout:
                word, *numbers = line.split()
                if word == READY:
                    self._ready.set()
                else:
                    number, code = map(int, numbers)
                    self._on_end(number, code)
        parent.wait()
        self._ready.set()


def _started() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "beam_spark_executor.processes.parent"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a Ctrl-C in the terminal is for the server alone
    )
