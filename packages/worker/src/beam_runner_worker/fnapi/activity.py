"""What a process and all beneath it do, by its id or its name, as far as Linux tells it; elsewhere nothing is known."""

from __future__ import annotations

import os

from beam_runner_worker.fnapi.starting import Activity
from beam_runner_worker.process_tree import descendants, processes, threads

_WANT = frozenset("RD")
"""States of threads that run or wait for a core, and of those that wait for a disk."""
_STATE, _TIMES = 0, slice(11, 15)
"""Where these stand behind a process's name: its own times, and those of its children that have ended."""


class NamedProcess:
    """A process of this machine that somebody else starts, and in whose command line a name stands.

    Args:
        name: that nobody else has.
    """

    def __init__(self, name: str) -> None:
        self._name = name.encode()
        self._process: int | None = None
        self._ran = 0.0

    def activity(self) -> Activity | None:
        """What it does; nothing, once it has ended. None as long as it was not seen.

        It costs some milliseconds until it was found. One that ends at once may never be seen.
        """
        if self._process is None or not self._is_named(self._process):
            self._process = next(filter(self._is_named, processes()), self._process)
        if self._process is None:
            return None
        found = activity_of(self._process) or Activity(self._ran, wants=False)
        self._ran = found.ran
        return found

    def _is_named(self, process: int) -> bool:
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                return self._name in file.read()
        except OSError:
            return False


def activity_of(process: int) -> Activity | None:
    """That of a process, by its id, and of those beneath it; None if it is gone, or nothing is known.

    It costs some ten microseconds for each of their threads.
    """
    found = [process, *descendants(process)]
    told = [fields for each in found if (fields := _told(f"/proc/{each}/stat"))]
    if not told:
        return None
    ran = sum(int(ticks) for fields in told for ticks in fields[_TIMES]) / os.sysconf("SC_CLK_TCK")
    return Activity(ran, wants=any(map(_wants, found)))


def _wants(process: int) -> bool:
    stats = (_told(f"/proc/{process}/task/{thread}/stat") for thread in threads(process))
    return any(fields[_STATE] in _WANT for fields in stats if fields)


def _told(path: str) -> list[str]:
    """What stands behind the name, which may have spaces and brackets; empty if the process is gone."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
