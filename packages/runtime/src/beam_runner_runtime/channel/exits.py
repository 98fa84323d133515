"""Exit statuses of worker processes. The parent process records them for the server.

Only the parent of a process gets its exit code or signal. The parent shares a page of memory with
each worker. The worker writes the path of its folder into the page. After the worker's exit, the
parent writes the exit status into a file in that folder, where the server finds it.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
import time
from pathlib import Path

import attrs
from beam_runner_model.process_exits import ProcessExit
from beam_runner_worker.out_of_memory import OutOfMemoryDetector

from beam_runner_runtime.memory import read_memory_limit

_FILE = "exit"
_PAGE_BYTES = 4096
_HEADER = struct.Struct("<QH")
_LOOK_SECONDS = 0.01
_SHORT_OF_MEMORY = 0.9
"""Fraction of the memory limit. If a worker that used more than this fraction is killed by SIGKILL,
the cause is probably a memory supervisor, such as YARN's node manager.
"""

_page: mmap.mmap | None = None
"""Memory page that this process shares with its parent; None if the parent doesn't record exits."""


@attrs.frozen
class ReapedChild:
    """Child process that has exited, with its exit code or minus its signal."""

    pid: int
    code: int


class ExitRecorder:
    """Recorder of the exit statuses of worker processes, in their parent process.

    After :meth:`install`, each fork shares a page with the child.

    Attributes:
        has_children: whether this process had running children at the last call of `reap_children`.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._next: mmap.mmap | None = None
        self._pages: list[mmap.mmap] = []
        self._kills = OutOfMemoryDetector()
        self.has_children = False

    def install_fork_hooks(self) -> None:
        """Registers hooks of `os.fork`, so that each child shares a page of memory with this process."""
        os.register_at_fork(
            before=self._allocate_page,
            after_in_parent=self._retain_page_in_parent,
            after_in_child=self._share_page_in_child,
        )

    def reap_children(self) -> list[ReapedChild]:
        """Reaps children that have exited, and records the exit status of those that failed.
        Doesn't wait for running children.
        """
        reaped: list[ReapedChild] = []
        with contextlib.suppress(ChildProcessError):
            self.has_children = False
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    self.has_children = True
                    break
                code = os.waitstatus_to_exitcode(status)
                reaped.append(ReapedChild(pid, code))
                self._record_exit(pid, code, usage.ru_maxrss * 1024)
        return reaped

    def _record_exit(self, pid: int, code: int, peak_bytes: int) -> None:
        for page in self._pages:
            owner, size = _HEADER.unpack_from(page)
            if owner == pid:
                folder = bytes(page[_HEADER.size : _HEADER.size + size])
                self._pages.remove(page)
                page.close()
                break
        else:
            return
        if code and folder:
            end = ProcessExit(code)
            if end.was_killed:
                lacks = self._kills.has_recent_kill() or _is_near_memory_limit(peak_bytes)
                end = attrs.evolve(end, lacked_memory=lacks)
            _write_exit(Path(os.fsdecode(folder)), end)

    # Hooks of `os.fork`. Forks of a child, such as those of user code, do nothing.

    def _allocate_page(self) -> None:
        self._next = mmap.mmap(-1, _PAGE_BYTES) if os.getpid() == self._pid else None

    def _retain_page_in_parent(self) -> None:
        if self._next is not None:
            self._pages.append(self._next)

    def _share_page_in_child(self) -> None:
        global _page
        _page, self._next = self._next, None
        self._pages.clear()
        if _page is not None:
            _HEADER.pack_into(_page, 0, os.getpid(), 0)


def send_folder_to_parent(folder: Path) -> None:
    """Sends the folder of this worker process to the parent process, which records the exit status in the folder."""
    path = os.fsencode(folder.absolute())
    if _page is not None and _HEADER.size + len(path) <= _PAGE_BYTES:
        _page[_HEADER.size : _HEADER.size + len(path)] = path
        _HEADER.pack_into(_page, 0, os.getpid(), len(path))


def wait_for_exit(folder: Path, seconds: float) -> ProcessExit | None:
    """Returns the exit status of a lost process, as recorded by the parent process.

    The connection of a process closes shortly before its parent records the exit.

    Args:
        folder: folder of the process.
        seconds: maximum time to wait for the record.

    Returns:
        the exit status. None if the parent doesn't record it in time, for example because the machine
        is lost.
    """
    until = time.monotonic() + seconds
    while folder.is_dir():
        with contextlib.suppress(OSError, ValueError, TypeError):
            return ProcessExit(**json.loads((folder / _FILE).read_bytes()))
        if time.monotonic() > until:
            break
        time.sleep(_LOOK_SECONDS)
    return None


def _write_exit(folder: Path, end: ProcessExit) -> None:
    # Write a temporary file and rename it, because the server can read at any time. The folder can
    # be missing if the job has ended.
    with contextlib.suppress(OSError):
        new = folder / f".{_FILE}"
        new.write_text(json.dumps(attrs.asdict(end)))
        new.rename(folder / _FILE)


def _is_near_memory_limit(peak_bytes: int) -> bool:
    try:
        return peak_bytes > _SHORT_OF_MEMORY * read_memory_limit()
    except ValueError:
        return False
