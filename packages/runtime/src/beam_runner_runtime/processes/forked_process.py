"""Fork server that is forked from the job server, so that the fork server needs no second import of
Beam. The job server must have only one thread at that time.

The import of Beam takes two seconds of CPU time. The forked process imports the other modules that
workers need, in parallel with the server's start. The process and all of its descendants exit with
the server.
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
"""Process name (``ps -o comm``) of the forked process and its descendants. Their command lines are
copies of the server's.
"""

_LOOK_SECONDS = 0.02


class ForkedProcess:
    """Child process that runs a function, with the interface of `subprocess.Popen`.

    The class requires `reaper.is_reaper_supported` and a server process of one thread.

    Args:
        serve: function that the child process runs; the process exits when the function returns.
        not_its: file descriptors of the server that the child process must close.

    Attributes:
        stdin: pipe to the standard input of the process.
        stdout: pipe from the standard output of the process.
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
            reaper.redirect_to_null(*not_its)
            _run_forked(serve, server, orders, answers)
        os.close(orders)
        os.close(answers)
        self.stdin: TextIO = os.fdopen(ours, "w")
        self.stdout: TextIO = os.fdopen(theirs)
        self._code: int | None = None
        self._asking = threading.Lock()

    def poll(self) -> int | None:
        """Returns the exit code, or minus the signal that ended the process; None while the process runs."""
        with self._asking:
            if self._code is None:
                ended, status = os.waitpid(self._pid, os.WNOHANG)
                if ended:
                    self._code = os.waitstatus_to_exitcode(status)
            return self._code

    def wait(self, timeout: float = math.inf) -> int:
        """Waits for the exit of the process, and returns the exit code.

        Raises:
            subprocess.TimeoutExpired: The process didn't exit within ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("the forked process", timeout)
            time.sleep(_LOOK_SECONDS)
        return code

    def terminate(self) -> None:
        """Ends the process and, after a grace period, its descendants; does nothing if the process has exited."""
        if self.poll() is None:
            os.kill(self._pid, signal.SIGTERM)


def _run_forked(serve: Callable[[], object], server: int, orders: int, answers: int) -> NoReturn:
    """Separates the forked process from the server (descriptors, signal handlers), and runs ``serve``."""
    try:
        reaper.set_process_name(NAME)
        os.setsid()  # so that only the server gets a Ctrl-C of the terminal
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
        reaper.run_with_reaper(serve, [server])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)
