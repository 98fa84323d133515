"""A process forked from the server while that has one thread: workers are forked from it, and need not import Beam once more.

The server has just imported Beam, which takes two seconds of CPU time. What workers need besides, the
forked process imports beside the server's start. It ends with the server, and all beneath it does.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Sequence
from typing import NoReturn, TextIO

from beam_runner_runtime.processes import reaper

NAME = "beam-workers"
"""What the system calls it and all that is forked from it (``ps -o comm``): their command lines are the server's."""

_LOOK_SECONDS = 0.02


class Zygote:
    """The forked process, as `subprocess.Popen` shows one that was started.

    Where `reaper.is_possible`, and in a process of one thread.

    Args:
        serve: what it does, in a process beneath its reaper; it ends when that returns.
        not_its: files of the server's that it has to let go of.

    Attributes:
        stdin, stdout: pipes from and to its standard streams.
    """

    def __init__(self, serve: Callable[[], object], not_its: Sequence[int] = ()) -> None:
        orders, ours = os.pipe()
        theirs, answers = os.pipe()
        server = os.getpid()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(ours)
            os.close(theirs)
            reaper.make_silent(*not_its)
            _become(serve, server, orders, answers)
        os.close(orders)
        os.close(answers)
        self.stdin: TextIO = os.fdopen(ours, "w")
        self.stdout: TextIO = os.fdopen(theirs)
        self._code: int | None = None
        self._asking = threading.Lock()

    def poll(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None while it runs."""
        with self._asking:
            if self._code is None:
                ended, status = os.waitpid(self._pid, os.WNOHANG)
                if ended:
                    self._code = os.waitstatus_to_exitcode(status)
            return self._code

    def wait(self, timeout: float = math.inf) -> int:
        """The exit code, once it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not after so many seconds.
        """
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("the zygote", timeout)
            time.sleep(_LOOK_SECONDS)
        return code

    def terminate(self) -> None:
        """Has it end, and all beneath it, after a grace for these; does nothing if it has ended."""
        if self.poll() is None:
            os.kill(self._pid, signal.SIGTERM)


def _become(serve: Callable[[], object], server: int, orders: int, answers: int) -> NoReturn:
    """Is nothing of the server any more but for what was imported."""
    try:
        reaper.be_called(NAME)
        os.setsid()  # a Ctrl-C in the terminal is for the server alone
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, signal.SIG_DFL)
        for number, stream in enumerate((orders, answers)):
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.argv = [__file__]
        sys.modules["__main__"] = types.ModuleType("__main__")
        root = logging.getLogger()
        root.handlers.clear()
        root.setLevel(logging.WARNING)
        reaper.watch_over(serve, [server])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)
