"""Files of this process's control groups, and detection of kills by the out-of-memory killer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_RECENT_SECONDS = 5.0


class OutOfMemoryDetector:
    """Detection of processes that the system's out-of-memory killer killed on this machine.

    Args:
        root: parent folder of ``proc`` and ``sys``.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._before = self._count_kills()
        self._until = time.monotonic()

    def has_recent_kill(self) -> bool:
        """Returns whether Linux killed a process for lack of memory in the last 5 s, or since the last call."""
        killed = self._count_kills()
        if killed > self._before:
            # Return True for some seconds after a kill. Several processes can be lost together, and
            # the runner calls this method separately for each lost process.
            self._before, self._until = killed, time.monotonic() + _RECENT_SECONDS
        return time.monotonic() < self._until

    def _count_kills(self) -> int:
        """Returns the number of out-of-memory kills since the machine's start; 0 if the system
        doesn't report the number.

        The machine and each control group count separately. The sum increases with each kill that
        one of them reports.
        """
        groups = iterate_group_files(self._root, "memory.events", "memory.oom_control")
        return sum(map(_read_kills, (self._root / "proc/vmstat", *groups)))


def iterate_group_files(root: Path, name: str, old_name: str) -> Iterator[Path]:
    """Yields a file of this process's control group for memory, and of its ancestors.

    Args:
        root: parent folder of ``proc`` and ``sys``.
        name: name of the file in version 2 of control groups.
        old_name: name of the file in version 1.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            mount, file = root / "sys/fs/cgroup", name
        elif "memory" in controllers.split(","):
            mount, file = root / "sys/fs/cgroup/memory", old_name
        else:
            continue
        group = PurePosixPath(path)
        for each in (group, *group.parents):
            yield mount / str(each).lstrip("/") / file


def _read_kills(file: Path) -> int:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
