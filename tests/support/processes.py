"""What the system tells of processes by their ids, whoever has started them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

FORKED = "forked from a server"
_TICKS = os.sysconf("SC_CLK_TCK")


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be noticed by its parent does not."""
    return _state_and_parent(pid)[0] not in ("", "Z")


def exists(pid: int) -> bool:
    """Whether there is a process, be it one that only waits to be noticed by its parent."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def marked(variable: str, mark: str) -> dict[int, str]:
    """The command line of every process that runs and has a variable of this value in its environment.

    One that was forked from a server, and has its command line, is told by `FORKED` in place of that.
    """
    found = {}
    text = f"{variable}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                forked = (folder / "comm").read_text() == "beam-workers\n"
                if command:  # a zombie has none
                    text_of_it = FORKED if forked else command.decode(errors="replace").strip()
                    found[int(folder.name)] = text_of_it
        except OSError:
            continue  # it has ended in the meantime
    return found


def parent(pid: int) -> int:
    """The parent of a process; 0 if it has ended."""
    return int(_state_and_parent(pid)[1])


def threads(pid: int) -> int:
    """How many threads a process has; 0 if it has ended."""
    try:
        return len(list(Path(f"/proc/{pid}/task").iterdir()))
    except OSError:
        return 0


def cpu_seconds(pids: Iterable[int]) -> float:
    """What these processes, and those of their children that have ended, have used of the processor so far."""
    ticks = 0
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue  # its parent has it now
        ticks += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return ticks / _TICKS


def _state_and_parent(pid: int) -> tuple[str, str]:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "", "0"
    # The name before them may hold blanks and parentheses.
    state, parent, *_ = stat.rpartition(")")[2].split()
    return state, parent
