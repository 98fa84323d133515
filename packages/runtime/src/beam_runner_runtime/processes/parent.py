"""The process that plain workers are forked from: it has imported what they need, and tells when one ends.

It is forked from the server (:mod:`~beam_runner_runtime.processes.zygote`), or started as
``python -m beam_runner_runtime.processes.parent``. A line of its standard input is an order:
``fork 7 {...}``, which makes the worker with that number and tells it, as JSON, how it reaches the server's channel;
or ``kill 7``. A line of its standard output is ``ready``, or ``ended 7 -9`` with the exit code or the signal. It ends
with its standard input, or with the server, and all beneath it with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import traceback
from types import FrameType
from typing import NoReturn

from beam_runner_runtime.processes import reaper
from beam_runner_runtime.processes.warmth import be_killed_first, import_what_workers_need

READY = "ready"


class _Parent:
    """Forks workers and waits for their ends, all in one thread: there must be no other at a fork."""

    def __init__(self) -> None:
        self._pids: dict[int, int] = {}

    def obey(self, order: str, number: int, told: str) -> None:
        """Carries out one line."""
        # An end is taken note of before or after this, but not in the midst of it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            if order == "fork":
                pid = os.fork()
                if pid == 0:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
                    _become_worker(told, number)
                self._pids[pid] = number
            else:
                for pid in [pid for pid, known in self._pids.items() if known == number]:
                    os.kill(pid, signal.SIGKILL)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def bury(self, signal_number: int, frame: FrameType | None) -> None:
        """Tells of the workers that have ended."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                _tell(f"ended {self._pids.pop(pid)} {os.waitstatus_to_exitcode(status)}")


def _become_worker(told: str, number: int) -> NoReturn:
    """Serves lanes as the worker with a number that reaches the server as it was told, and ends."""
    code = 1
    try:
        if reaper.is_possible():
            reaper.end_with_parent()
            # What user code leaves behind is this worker's as long as it lives, then the reaper's.
            reaper.adopt_orphans()
        for each in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        reaper.make_silent(0)
        os.dup2(2, 1)  # what user code prints is nothing for the server to read
        from beam_runner_runtime.channel.messages import Endpoint
        from beam_runner_runtime.processes.worker import serve_lanes

        serve_lanes(Endpoint(**json.loads(told)), number)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def serve() -> None:
    """Obeys until the standard input ends; must be the first thing of its process, or of a `Zygote`."""
    # First of all: what imports Beam by itself has it add a handler of logs, which workers would keep.
    import_what_workers_need()
    be_killed_first()
    _tell(READY)
    parent = _Parent()
    signal.signal(signal.SIGCHLD, parent.bury)
    for line in iter(sys.stdin.readline, ""):
        order, _, rest = line.partition(" ")
        number, _, told = rest.partition(" ")
        parent.obey(order, int(number), told)


def main() -> None:
    """Forks workers for the process that has started this one."""
    if reaper.is_possible():
        reaper.watch_over(serve, [os.getppid()])
    serve()


if __name__ == "__main__":
    main()
