"""Stacks of the Python threads of this process, for the server's diagnostics."""

from __future__ import annotations

import linecache
import os
import socket
import sys
import threading
import traceback
from collections.abc import Iterable

from beam_runner_model.observation import StackFrame, ThreadStack

_MOST_FRAMES = 60
_MOST_THREADS = 50
_LONGEST_LINE = 300


def list_thread_stacks() -> tuple[ThreadStack, ...]:
    """Returns the stacks of all threads except the calling thread, with the main thread first.

    The function reads source files, so it's slow. Call it only for a user's request.
    """
    named = {thread.ident: thread.name for thread in threading.enumerate()}
    own, main = threading.get_ident(), threading.main_thread().ident
    found = sorted(sys._current_frames().items(), key=lambda item: item[0] != main)
    host, pid = socket.gethostname(), os.getpid()
    linecache.checkcache()
    return tuple(
        ThreadStack(
            host,
            pid,
            named.get(ident, str(ident)),
            tuple(
                StackFrame(
                    one.filename, one.lineno or 0, one.name, (one.line or "")[:_LONGEST_LINE]
                )
                for one in traceback.extract_stack(frame)[-_MOST_FRAMES:]
            ),
        )
        for ident, frame in found[: _MOST_THREADS + 1]
        if ident != own
    )


def format_stacks(found: Iterable[ThreadStack]) -> str:
    """Returns stacks as lines of text for a log."""
    lines = []
    for stack in found:
        lines.append(f"thread {stack.thread!r} of process {stack.pid} on {stack.host}:")
        lines += (f"  {one.file}:{one.line} in {one.function}: {one.code}" for one in stack.frames)
    return "\n".join(lines)
