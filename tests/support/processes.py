"""Information of the operating system about processes, by process id."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

FORKED = "forked from a server"
_TICKS = os.sysconf("SC_CLK_TCK")


def is_alive(pid: int) -> bool:
    """Returns True if a process runs and is no zombie."""
    return _state_and_parent(pid)[0] not in ("", "Z")


def process_exists(pid: int) -> bool:
    """Returns True if a process exists, also as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def find_marked_processes(variable: str, mark: str) -> dict[int, str]:
    """Returns the command line of every running process that has a variable with this value in its
    environment.

    For a process that was forked from a server and has its command line, the result has `FORKED`
    instead.
    """
    found = {}
    text = f"{variable}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                forked = (folder / "comm").read_text() == "beam-workers\n"
                if command:  # Skip zombies, which have no command line
                    text_of_it = FORKED if forked else command.decode(errors="replace").strip()
                    found[int(folder.name)] = text_of_it
        except OSError:
            continue  # the process has exited meanwhile
    return found


def parent_process(pid: int) -> int:
    """Returns the parent of a process; 0 after its exit."""
    return int(_state_and_parent(pid)[1])


def thread_count(pid: int) -> int:
    """Returns the number of threads of a process; 0 after its exit."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0


def cpu_seconds(pids: Iterable[int]) -> float:
    """Returns the CPU time (s) of these processes and of their exited children."""
    ticks = 0
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue  # Skip the exited process, because its parent accounts for its time now
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return ticks / _TICKS


def _state_and_parent(pid: int) -> tuple[str, str]:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "", "0"
    # Split after the last parenthesis, because the process name can contain blanks and parentheses.
    state, parent, *_ = stat.rpartition(")")[2].split()
    return state, parent
