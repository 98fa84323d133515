"""A small process that ends what others leave behind: it outlives them, and all orphans come to it.

User code may fork, start sessions of its own, and block in C where no signal of Python's is heard.
So whoever loses its parent beneath a reaper is the reaper's child from then on (Linux calls that a
subreaper), and is killed a little later. Elsewhere than on Linux nothing of this is to be had.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import NoReturn

from beam_runner_worker.process_tree import children, descendants

from beam_runner_runtime.shutdown.limits import LIMITS

_SET_PARENT_DEATH_SIGNAL = 1
_SET_NAME = 15
_SET_CHILD_SUBREAPER = 36


def is_possible() -> bool:
    """Whether this system has what it takes."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


def adopt_orphans() -> None:
    """Has those whose parent ends beneath this process become its children; not inherited."""
    _control(_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Has this process killed when the thread that forked it ends; not inherited."""
    _control(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def be_called(name: str) -> None:
    """Gives this process another name, of at most 15 bytes; inherited."""
    _control(_SET_NAME, ctypes.create_string_buffer(name.encode()))


def make_silent(*streams: int) -> None:
    """Has nothing come from these descriptors, and what is written to them go nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(null, stream)
    os.close(null)


def watch_over(run: Callable[[], object], owners: Iterable[int]) -> NoReturn:
    """Runs ``run`` in a child, and ends all that is beneath this process when that ends.

    So it does, after a grace, when one of the ``owners`` (process ids) ends, or at SIGTERM. While they
    live, it ends orphans alone. To be called in a process of one thread that has no other children.
    """
    adopt_orphans()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        end_with_parent()
        try:
            run()
        finally:
            os._exit(1)
    signal.signal(signal.SIGTERM, lambda number, frame: _end_all(child))
    with contextlib.ExitStack() as files:
        ends = select.poll()
        for process in (child, *owners):
            try:
                file = os.pidfd_open(process)
            except ProcessLookupError:
                _end_all(child)
            files.callback(os.close, file)
            ends.register(file, select.POLLIN)
        orphans: dict[int, float] = {}
        while not ends.poll(LIMITS.reaper_look_seconds * 1000):
            _bury()
            _end_orphans(child, orphans)
    _end_all(child)


def _end_orphans(child: int, orphans: dict[int, float]) -> None:
    """Kills those that were orphans at earlier looks, too, and still are after their grace."""
    now = time.monotonic()
    found = [pid for pid in children(os.getpid()) if pid != child]
    for pid in orphans.keys() - found:
        del orphans[pid]
    for pid in found:
        if now - orphans.setdefault(pid, now) > LIMITS.orphan_seconds:
            kill_all([pid, *descendants(pid)])


def _end_all(child: int) -> NoReturn:
    """Ends this process after all beneath it, which have a grace; but ``child`` is no reason to wait."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    limit = time.monotonic() + LIMITS.orphan_seconds
    while _left({child}) and time.monotonic() < limit:
        time.sleep(LIMITS.reaper_end_look_seconds)
    while left := _left(set()):
        kill_all(left)
        time.sleep(LIMITS.reaper_end_look_seconds)
    os._exit(0)


def _left(but: set[int]) -> set[int]:
    _bury()
    return set(descendants(os.getpid())) - but


def _bury() -> None:
    """Takes note of children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def kill_all(pids: Iterable[int]) -> None:
    """Kills processes; those that have ended are no error."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _control(option: int, value: int | ctypes.Array[ctypes.c_char]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
