"""The memory limit of processes on this machine, and the memory budget of a bundle."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path, PurePosixPath

VARIABLE = "BEAM_RUNNER_MEMORY"
"""Upper limit of the memory that the runner uses, in bytes; for the server and executors."""
_SHARE_OF_BUNDLE = 32
"""Divisor of the memory limit per core. The server, Java and lane processes need most of the memory, a
core can have four lanes, and grouped data takes about three times its size.
"""
_BUDGETS_OF_TABLE = 2
"""Multiplier for tables of combined values: grouped data takes more memory than its bytes, but a table
counts its real memory.
"""
_BUDGETS_OF_SECTION = 2
"""Multiplier for sections: a core runs one section task at a time, instead of up to four lanes."""
_LEAST_BUDGET = 8 << 20
_LATELY_SECONDS = 5.0
_MOST_BUDGET = 1 << 30


def read_memory_limit(root: Path = Path("/")) -> int:
    """Returns the memory (bytes) that this process and its siblings can use together.

    The result is the minimum of three limits: the memory of the machine, the limits of this
    process's control groups, and the environment variable ``BEAM_RUNNER_MEMORY``. Control groups
    apply in containers, for example. Their limit is ``memory.max`` in version 2, and
    ``memory.limit_in_bytes`` in version 1.

    Args:
        root: parent folder of ``proc`` and ``sys``.

    Raises:
        ValueError: The variable isn't a number of bytes; the text is one sentence.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    stated = os.environ.get(VARIABLE, "")
    if stated and not stated.isdecimal():
        raise ValueError(f"{VARIABLE} is {stated!r}, not a number of bytes.")
    limits = [int(stated)] if stated else []
    return min([machine, *limits, *_read_group_limits(root)])


def compute_table_budget() -> int:
    """Returns the maximum memory (bytes) of values that a bundle combines before a shuffle."""
    return _BUDGETS_OF_TABLE * compute_bundle_budget()


@functools.cache
def compute_bundle_budget() -> int:
    """Returns the maximum bytes of rows that one bundle holds in memory; larger input goes to files."""
    share = read_memory_limit() // (_SHARE_OF_BUNDLE * (os.cpu_count() or 1))
    return max(_LEAST_BUDGET, min(share, _MOST_BUDGET))


def compute_section_budget() -> int:
    """Returns the memory budget (bytes) of a section's bundle, and of the input that waits for it."""
    return _BUDGETS_OF_SECTION * compute_bundle_budget()


class OutOfMemoryDetector:
    """Detection of processes that the system's out-of-memory killer killed on this machine.

    Args:
        root: parent folder of ``proc``.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._counts = root / "proc/vmstat"
        self._before = self._count_kills()
        self._until = time.monotonic()

    def describe_recent_kill(self) -> str:
        """Returns a hint for the report of a lost process; empty without an out-of-memory kill in the last 5 s."""
        killed = self._count_kills()
        if killed > self._before:
            # Report the same kill for several processes: processes can be lost together, and each
            # loss is reported separately.
            self._before, self._until = killed, time.monotonic() + _LATELY_SECONDS
        if time.monotonic() >= self._until:
            return ""
        return (
            "; the system has just killed processes on this machine for want of memory: user code "
            "has to keep less of it at once, or the machine or control group needs more"
        )

    def _count_kills(self) -> int:
        """Returns the number of out-of-memory kills since the machine's start; 0 if the system doesn't report it."""
        try:
            lines = self._counts.read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _read_group_limits(root: Path) -> list[int]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    limits: list[int] = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            limits += _read_limits(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _read_limits(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")
    return limits


def _read_limits(mount: Path, path: str, name: str) -> list[int]:
    """Returns the limits of a control group and of its visible ancestors."""
    found: list[int] = []
    group = PurePosixPath(path)
    for each in (group, *group.parents):
        try:
            text = (mount / str(each).lstrip("/") / name).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            found.append(int(text))
    return found
