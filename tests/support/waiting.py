"""Waiting of tests for a condition, with a limit that no busy machine exceeds."""

from __future__ import annotations

import time
from collections.abc import Callable

from processes import is_alive

_PAUSE = 0.02


def eventually(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    """Returns True if a condition becomes true within a time limit."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True


def wait_until(
    condition: Callable[[], object], seconds: float = 60.0, what: str | Callable[[], str] = ""
) -> None:
    """Waits for a condition; fails with ``what`` after the time limit."""
    if not eventually(condition, seconds):
        text = what if isinstance(what, str) else what()
        raise AssertionError(f"not within {seconds:.0f} s: {text}")


def wait_until_gone(*pids: int, seconds: float = 60.0) -> None:
    """Waits until processes have exited; zombies count as exited."""
    wait_until(lambda: not any(map(is_alive, pids)), seconds, f"the end of {pids}")
