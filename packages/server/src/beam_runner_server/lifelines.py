"""What the server lives for besides signals: whoever reads what it prints, and the process it is to end with.

Beam's SDKs start a job server and read its output through a pipe. If such a program is killed, nobody
is left who would stop the server; but the pipe has no reader any more, and the system tells that.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
from collections.abc import Callable

from beam_runner_model.threads import start_essential


class AlreadyGone(Exception):
    """The process that this one was to end with has ended."""


def watch(output: int, process: int | None, on_end: Callable[[str], None]) -> None:
    """Calls ``on_end``, once, on a thread of its own, when one of these is gone, and says which.

    Args:
        output: a file descriptor; one that is no pipe is never gone.
        process: the id of a process, if there is one.

    Raises:
        AlreadyGone: that process has ended.
    """
    ends = select.poll()
    named: dict[int, str] = {}
    with contextlib.suppress(OSError):
        if stat.S_ISFIFO(os.fstat(output).st_mode):
            ends.register(output, 0)  # an error is told unasked
            named[output] = "nobody reads its output any more"
    if process is not None:
        try:
            file = os.pidfd_open(process)
        except OSError as error:
            raise AlreadyGone(f"the process {process} is not there") from error
        ends.register(file, select.POLLIN)
        named[file] = f"the process {process} has ended"
    if not named:
        return

    def wait() -> None:
        (gone, _), *_ = ends.poll()
        on_end(named[gone])

    start_essential(
        wait, "lifelines", lambda error: on_end(f"it can't watch what it was to end with: {error}")
    )
