"""Functions that tests call in processes that may crash. Spawned processes import them by name."""

from __future__ import annotations

import os
import signal

from mortal import At


def begin() -> None:
    os.environ["MORTAL_BEGUN"] = "yes"


def work(at: At, what: str) -> str:
    """Exits the process, raises, or returns its process id."""
    at.tell(f"work on {what}")
    if what == "death":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "trouble":
        raise ValueError(what)
    return f"{what} {os.environ['MORTAL_BEGUN']} {os.getpid()}"
