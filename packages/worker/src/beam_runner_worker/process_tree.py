"""The processes of this machine, the threads of one and those beneath it, as Linux tells them; elsewhere there are none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


def processes() -> list[int]:
    """Ids of all processes, the youngest first, as long as ids do not begin again; none if nothing is known."""
    try:
        return sorted(map(int, filter(str.isdigit, os.listdir("/proc"))), reverse=True)
    except OSError:
        return []


def threads(process: int | str = "self") -> list[int]:
    """Ids of the threads of a process; none if it has ended, or nothing is known."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{process}/task")]
    except OSError:
        return []


def children(process: int) -> list[int]:
    """Ids of the children of a process; none if it has ended, or nothing is known."""
    found: list[int] = []
    for thread in threads(process):
        # It may have ended meanwhile.
        with (
            contextlib.suppress(OSError),
            open(f"/proc/{process}/task/{thread}/children", "rb") as file,
        ):
            found.extend(map(int, file.read().split()))
    return found


def descendants(process: int) -> Iterator[int]:
    """Ids of the processes beneath a process, parents first; zombies among them."""
    for child in children(process):
        yield child
        yield from descendants(child)
