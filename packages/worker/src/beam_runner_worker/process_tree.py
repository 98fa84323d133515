"""Lists of this machine's processes, and of the threads and descendants of a process, from Linux's
/proc. The lists are empty on other systems.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


def list_processes() -> list[int]:
    """Returns the IDs of all processes, the youngest first unless IDs have wrapped around; empty if unknown."""
    try:
        return sorted(map(int, filter(str.isdigit, os.listdir("/proc"))), reverse=True)
    except OSError:
        return []


def list_threads(process: int | str = "self") -> list[int]:
    """Returns the IDs of a process's threads; empty if the process has exited or is unknown."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]
    except OSError:
        return []


def list_children(process: int) -> list[int]:
    """Returns the IDs of a process's children; empty if the process has exited or is unknown."""
    found: list[int] = []
    for thread in list_threads(process):
        # Ignore errors, because the thread may exit during the iteration.
        with (
            contextlib.suppress(OSError),
            open(f"/proc/{process}/task/{thread}/children", "rb") as file,
        ):
            found.extend(map(int, file.read().split()))
    return found


def iterate_descendants(process: int) -> Iterator[int]:
    """Yields the IDs of a process's descendants, parents first, including zombies."""
    for child in list_children(process):
        yield child
        yield from iterate_descendants(child)
