"""Detection that the server's parent program has exited, so that the server must stop.

Beam's SDKs start a job server and read its output through a pipe. If such a program is killed, it
can't stop the server. But the server then detects that its output pipe has no reader.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
from collections.abc import Callable

from beam_runner_model.threads import start_essential_thread


class ParentAlreadyExited(Exception):
    """Raised if the process to watch has already exited."""


def watch_output_and_process(
    output: int, process: int | None, on_end: Callable[[str], None]
) -> None:
    """Watches an output pipe and a process. When the pipe has no reader or the process exits, calls
    ``on_end`` once, on a separate thread, with a name of what ended.

    Args:
        output: a file descriptor. If it isn't a pipe, its reader is not watched.
        process: the id of a process, if there is one.

    Raises:
        ParentAlreadyExited: the process has ended.
    """
    ends = select.poll()
    named: dict[int, str] = {}
    with contextlib.suppress(OSError):
        if stat.S_ISFIFO(os.fstat(output).st_mode):
            ends.register(output, 0)  # poll always reports errors
            named[output] = "no process reads the server's standard output"
    if process is not None:
        try:
            file = os.pidfd_open(process)
        except OSError as error:
            raise ParentAlreadyExited(f"the process {process} doesn't exist") from error
        ends.register(file, select.POLLIN)
        named[file] = f"the process {process} exited"
    if not named:
        return

    def wait_for_end() -> None:
        (gone, _), *_ = ends.poll()
        on_end(named[gone])

    start_essential_thread(
        wait_for_end,
        "lifelines",
        lambda error: on_end(f"Can't watch the owner of the server: {error}"),
    )
