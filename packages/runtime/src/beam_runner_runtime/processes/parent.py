"""Fork server: a process that imports the modules of worker processes in advance, forks workers on
command, and reports their exits.

The server forks this process (:mod:`~beam_runner_runtime.processes.forked_process`), or starts it
as ``python -m beam_runner_runtime.processes.parent``. Each line of its standard input is a command.
``fork 7 {...}`` starts the worker number 7; the JSON object is the address of the job server.
``kill 7`` kills this worker. Each line of its standard output is ``ready``, or ``ended 7 -9`` with
the exit code or the signal. The process and its descendants exit at the end of its standard input,
or with the server.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from types import FrameType
from typing import NoReturn

from beam_runner_runtime.channel.exits import ExitRecorder
from beam_runner_runtime.processes import reaper
from beam_runner_runtime.processes.preload import (
    import_worker_modules,
    prefer_as_out_of_memory_victim,
)

READY = "ready"


class _ForkServer:
    """Fork server that starts workers and waits for their exits. It uses only one thread, because
    forks of a process with several threads are unsafe.
    """

    def __init__(self) -> None:
        self._pids: dict[int, int] = {}
        self._exits = ExitRecorder()
        self._exits.install_fork_hooks()

    def execute_command(self, order: str, number: int, told: str) -> None:
        """Executes one command of the server: forks or kills a worker."""
        # Block SIGCHLD while the table of workers changes, because its handler reads the table.
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

    def report_exited_workers(self, signal_number: int, frame: FrameType | None) -> None:
        """Reports exited workers to the server. This is the handler of SIGCHLD."""
        for child in self._exits.reap_children():
            _write_report(f"ended {self._pids.pop(child.pid)} {child.code}")


def _become_worker(told: str, number: int) -> NoReturn:
    """Makes this forked process the worker with this number. Runs the lanes that the server assigns
    to the worker, and exits. ``told`` is the server's address as JSON.
    """
    code = 1
    try:
        if reaper.is_reaper_supported():
            reaper.exit_with_parent()
            # Become the parent of orphaned processes of user code. After the exit of this worker,
            # the reaper becomes their parent.
            reaper.adopt_orphans()
        for each in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, signal.SIG_DFL)
        reaper.redirect_to_null(0)
        os.dup2(2, 1)  # the server must not read the output of user code
        from beam_runner_runtime.channel.messages import Endpoint
        from beam_runner_runtime.processes.worker import serve_lanes

        serve_lanes(Endpoint(**json.loads(told)), number)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _write_report(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def serve_commands() -> None:
    """Executes commands until the standard input ends. The process must not have started threads before."""
    # Import Beam through `import_worker_modules`, because a direct import of Beam would add a log
    # handler that workers inherit.
    import_worker_modules()
    prefer_as_out_of_memory_victim()
    _write_report(READY)
    parent = _ForkServer()
    signal.signal(signal.SIGCHLD, parent.report_exited_workers)
    for line in iter(sys.stdin.readline, ""):
        order, _, rest = line.partition(" ")
        number, _, told = rest.partition(" ")
        parent.execute_command(order, int(number), told)


def main() -> None:
    """Runs this process as the fork server of its parent process."""
    if reaper.is_reaper_supported():
        reaper.run_with_reaper(serve_commands, [os.getppid()])
    serve_commands()


if __name__ == "__main__":
    main()
