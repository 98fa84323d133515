"""Measurement of the CPU and disk activity of a process and its descendants, by process id or name.
Works only on Linux.
"""

from __future__ import annotations

import os

from beam_runner_worker.fnapi.starting import HarnessActivity
from beam_runner_worker.process_tree import iterate_descendants, list_processes, list_threads

_WANT = frozenset("RD")
"""Linux states of active threads: R runs or waits for a core, and D waits for a disk."""
_STATE, _TIMES = 0, slice(11, 15)
"""Positions of the state and of the CPU times in ``/proc/PID/stat``, counted after the process name.
The times include exited children.
"""


class NamedProcess:
    """Process of this machine that another program starts. The process is found by a name in its
    command line.

    Args:
        name: a unique text in the command line of the process.
    """

    def __init__(self, name: str) -> None:
        self._name = name.encode()
        self._process: int | None = None
        self._ran = 0.0

    def measure_activity(self) -> HarnessActivity | None:
        """Returns the activity of the process; None until the process is found. After the exit, the
        result has the last CPU time and no activity.

        Each call takes some milliseconds until the process is found. A process that exits quickly
        may never be found.
        """
        if self._process is None or not self._has_process_name(self._process):
            self._process = next(filter(self._has_process_name, list_processes()), self._process)
        if self._process is None:
            return None
        found = measure_process_activity(self._process) or HarnessActivity(self._ran, wants=False)
        self._ran = found.ran
        return found

    def _has_process_name(self, process: int) -> bool:
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                return self._name in file.read()
        except OSError:
            return False


def measure_process_activity(process: int) -> HarnessActivity | None:
    """Returns the activity of a process and its descendants; None if the process has exited or isn't
    visible.

    A call takes about 10 µs for each thread of these processes.
    """
    found = [process, *iterate_descendants(process)]
    told = [fields for each in found if (fields := _read_stat_fields(f"/proc/{each}/stat"))]
    if not told:
        return None
    ran = sum(int(ticks) for fields in told for ticks in fields[_TIMES]) / os.sysconf("SC_CLK_TCK")
    return HarnessActivity(ran, wants=any(map(_uses_or_awaits_cpu, found)))


def _uses_or_awaits_cpu(process: int) -> bool:
    stats = (
        _read_stat_fields(f"/proc/{process}/task/{thread}/stat") for thread in list_threads(process)
    )
    return any(fields[_STATE] in _WANT for fields in stats if fields)


def _read_stat_fields(path: str) -> list[str]:
    """Returns the fields of a ``stat`` file after the process name, which may contain spaces and
    brackets; empty if the process has exited.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
