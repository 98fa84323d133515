"""How much memory the processes on this machine may use, and what of it a bundle may take."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path, PurePosixPath

VARIABLE = "BEAM_RUNNER_MEMORY"
"""Upper limit of the memory that the runner uses, in bytes; for the server and executors."""
_SHARE_OF_BUNDLE = 32
"""One part in so many for each core: the server, Java and the processes of lanes need most of the
memory, a core may have four lanes, and what is grouped is in memory about three times."""
_BUDGETS_OF_TABLE = 2
"""What is grouped takes more than its bytes, and this is counted as it is."""
_BUDGETS_OF_SECTION = 2
"""A core has one task of a section at a time, where it may have four lanes."""
_LEAST_BUDGET = 8 << 20
_LATELY_SECONDS = 5.0
_MOST_BUDGET = 1 << 30


def memory_limit(root: Path = Path("/")) -> int:
    """The memory in bytes that this process and its like may use together.

    That is what the machine has, or what a control group allows that we are in, as in a container
    (``memory.max`` of version 2, ``memory.limit_in_bytes`` of version 1), or what the environment
    variable ``BEAM_RUNNER_MEMORY`` says, if that is less.

    Args:
        root: where ``proc`` and ``sys`` are.

    Raises:
        ValueError: the variable has no number of bytes; the text is one sentence.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    stated = os.environ.get(VARIABLE, "")
    if stated and not stated.isdecimal():
        raise ValueError(f"{VARIABLE} is {stated!r}, not a number of bytes.")
    limits = [int(stated)] if stated else []
    return min([machine, *limits, *_limits_of_groups(root)])


def table_budget() -> int:
    """How much memory what a bundle combines before a shuffle may take."""
    return _BUDGETS_OF_TABLE * bundle_budget()


@functools.cache
def bundle_budget() -> int:
    """How many bytes of rows one bundle may have in memory at a time; above that it uses files."""
    share = memory_limit() // (_SHARE_OF_BUNDLE * (os.cpu_count() or 1))
    return max(_LEAST_BUDGET, min(share, _MOST_BUDGET))


def section_budget() -> int:
    """The same for a bundle of a section, and for what comes for it."""
    return _BUDGETS_OF_SECTION * bundle_budget()


class KillWatch:
    """Notices that the system kills processes of this machine for want of memory.

    Args:
        root: where ``proc`` is.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._counts = root / "proc/vmstat"
        self._before = self._killed()
        self._until = time.monotonic()

    def hint(self) -> str:
        """What to add to the loss of a process; empty if none was killed lately."""
        killed = self._killed()
        if killed > self._before:
            # Several are lost together, and each loss is told by itself.
            self._before, self._until = killed, time.monotonic() + _LATELY_SECONDS
        if time.monotonic() >= self._until:
            return ""
        return (
            "; the system has just killed processes on this machine for want of memory: user code "
            "has to keep less of it at once, or the machine or control group needs more"
        )

    def _killed(self) -> int:
        """How many there were since the machine was started; 0 where the system does not tell."""
        try:
            lines = self._counts.read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _limits_of_groups(root: Path) -> list[int]:
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    limits: list[int] = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            limits += _limits(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")
    return limits


def _limits(mount: Path, path: str, name: str) -> list[int]:
    """Those of a group and of the groups that it is in, as far as they are to be seen from here."""
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
