"""CPU time of a process and all its descendants, also of exited processes, by a Linux control group."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_FIRST_VERSION = _ROOT / "cpuacct"
_NANOSECONDS = 1e9
_MICROSECONDS = 1e6


class CpuAccount:
    """CPU account with a unique name. Without permission to create a control group, its time is unknown."""

    def __init__(self, name: str) -> None:
        base = _FIRST_VERSION if _FIRST_VERSION.is_dir() else _ROOT
        self._folder = base / name

    def around(self, command: Sequence[str]) -> list[str]:
        """Returns a command that starts the given command inside the control group."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(exist_ok=True)
        script = 'echo $$ > "$0/cgroup.procs"; exec "$@"'
        return ["sh", "-c", script, str(self._folder), *command]

    def seconds(self) -> float:
        """Returns the CPU time until now, seconds; NaN if it is unknown."""
        try:
            if self._folder.parent == _FIRST_VERSION:
                return int((self._folder / "cpuacct.usage").read_text()) / _NANOSECONDS
            told = (self._folder / "cpu.stat").read_text().split()
            return int(told[told.index("usage_usec") + 1]) / _MICROSECONDS
        except (OSError, ValueError):
            return math.nan

    def close(self) -> None:
        """Removes it, if nothing runs in it any more."""
        with contextlib.suppress(OSError):
            self._folder.rmdir()
