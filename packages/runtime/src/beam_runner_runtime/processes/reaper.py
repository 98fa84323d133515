"""Reaper: a small process that becomes the parent of orphaned processes, and kills them. It runs
longer than its descendants.

User code can start processes that don't exit with their parent. If a descendant of the reaper loses
its parent, Linux makes it a child of the reaper (the reaper is a subreaper). The reaper kills such
an orphan after ``orphan_seconds``. The mechanism exists only on Linux.
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

from beam_runner_worker.process_tree import iterate_descendants, list_children

from beam_runner_runtime.shutdown.limits import LIMITS

_SET_PARENT_DEATH_SIGNAL = 1
_SET_NAME = 15
_SET_CHILD_SUBREAPER = 36


def is_reaper_supported() -> bool:
    """Returns True if this system supports reapers."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


def adopt_orphans() -> None:
    """Makes this process a subreaper: the parent of descendants that lose their parent. Child
    processes don't inherit the setting.
    """
    _call_prctl(_SET_CHILD_SUBREAPER, 1)


def exit_with_parent() -> None:
    """Makes the kernel kill this process when the thread that forked it ends. Child processes don't
    inherit the setting.
    """
    _call_prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def set_process_name(name: str) -> None:
    """Sets the name of this process, at most 15 bytes; children inherit the name."""
    _call_prctl(_SET_NAME, ctypes.create_string_buffer(name.encode()))


def redirect_to_null(*streams: int) -> None:
    """Redirects file descriptors to the null device."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(null, stream)
    os.close(null)


def run_with_reaper(run: Callable[[], object], owners: Iterable[int]) -> NoReturn:
    """Runs ``run`` in a child process. Kills all descendants of this process when the child process
    exits.

    This process also kills its descendants, after a grace period, if one of the ``owners`` (process
    IDs) exits or at SIGTERM. Until then, it kills only orphans. The calling process must have one
    thread and no other children.
    """
    adopt_orphans()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        exit_with_parent()
        try:
            run()
        finally:
            os._exit(1)
    signal.signal(signal.SIGTERM, lambda number, frame: _end_descendants_and_exit(child))
    with contextlib.ExitStack() as files:
        ends = select.poll()
        for process in (child, *owners):
            try:
                file = os.pidfd_open(process)
            except ProcessLookupError:
                _end_descendants_and_exit(child)
            files.callback(os.close, file)
            ends.register(file, select.POLLIN)
        orphans: dict[int, float] = {}
        while not ends.poll(LIMITS.reaper_look_seconds * 1000):
            _reap_children()
            _kill_old_orphans(child, orphans)
    _end_descendants_and_exit(child)


def _kill_old_orphans(child: int, orphans: dict[int, float]) -> None:
    """Kills the processes that have been orphans for longer than the grace period."""
    now = time.monotonic()
    found = [pid for pid in list_children(os.getpid()) if pid != child]
    for pid in orphans.keys() - found:
        del orphans[pid]
    for pid in found:
        if now - orphans.setdefault(pid, now) > LIMITS.orphan_seconds:
            kill_processes([pid, *iterate_descendants(pid)])


def _end_descendants_and_exit(child: int) -> NoReturn:
    """Ends all descendants of this process, and exits.

    The descendants except ``child`` get a grace period to end by themselves.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    limit = time.monotonic() + LIMITS.orphan_seconds
    while _find_descendants({child}) and time.monotonic() < limit:
        time.sleep(LIMITS.reaper_end_look_seconds)
    while left := _find_descendants(set()):
        kill_processes(left)
        time.sleep(LIMITS.reaper_end_look_seconds)
    os._exit(0)


def _find_descendants(but: set[int]) -> set[int]:
    _reap_children()
    return set(iterate_descendants(os.getpid())) - but


def _reap_children() -> None:
    """Reaps exited children."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def kill_processes(pids: Iterable[int]) -> None:
    """Kills processes; ignores exited processes."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _call_prctl(option: int, value: int | ctypes.Array[ctypes.c_char]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
