"""CPU and disk activity of a process and its descendants, by process id or name. Works on Linux only."""

from __future__ import annotations

import os

from beam_runner_worker.fnapi.starting import HarnessActivity
from beam_runner_worker.process_tree import iterate_descendants, list_processes, list_threads

_WANT = frozenset("RD")
"""The states of threads that run or wait for a core, and of those that wait for a disk."""
_STATE, _TIMES = 0, slice(11, 15)
"""The positions of the state and the CPU times (own, and of exited children) after the process name in
/proc/PID/stat.
"""


class NamedProcess:
    """A process of this machine that another program starts, found by a name in its command line.

    Args:
        name: a unique name.
    """

    def __init__(self, name: str) -> None:
        self._name = name.encode()
        self._process: int | None = None
        self._ran = 0.0

    def measure_activity(self) -> HarnessActivity | None:
        """Returns the activity of the process; none after its exit, and None while it hasn't been
        seen.

        Takes some milliseconds until the process is found. A process that exits at once may never
        be seen.
        """
        if self._process is None or not self._has_name(self._process):
            self._process = next(filter(self._has_name, list_processes()), self._process)
        if self._process is None:
            return None
        found = measure_process_activity(self._process) or HarnessActivity(self._ran, wants=False)
        self._ran = found.ran
        return found

    def _has_name(self, process: int) -> bool:
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                return self._name in file.read()
        except OSError:
            return False


def measure_process_activity(process: int) -> HarnessActivity | None:
    """Returns the activity of a process and its descendants; None if the process is gone or not
    visible.

    Takes about 10 µs for each of their threads.
    """
    found = [process, *iterate_descendants(process)]
    told = [fields for each in found if (fields := _read_stat_fields(f"/proc/{each}/stat"))]
    if not told:
        return None
    ran = sum(int(ticks) for fields in told for ticks in fields[_TIMES]) / os.sysconf("SC_CLK_TCK")
    return HarnessActivity(ran, wants=any(map(_wants_resources, found)))


def _wants_resources(process: int) -> bool:
    stats = (
        _read_stat_fields(f"/proc/{process}/task/{thread}/stat") for thread in list_threads(process)
    )
    return any(fields[_STATE] in _WANT for fields in stats if fields)


def _read_stat_fields(path: str) -> list[str]:
    """Returns the fields after the process name, which may contain spaces and brackets; empty if the
    process is gone.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
