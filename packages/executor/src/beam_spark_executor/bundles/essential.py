"""Threads that a worker process can't do without: where one breaks, the process ends, and is replaced.

Otherwise the server would wait for ever. User code may have replaced builtins, so nothing is looked up
by name once something has gone wrong.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable


def start_essential(work: Callable[[], None], name: str) -> None:
    """Runs ``work`` in a thread; the process exits if that raises, whatever it raises."""
    leave = os._exit

    def run() -> None:
        is_well = False
        try:
            work()
            is_well = True
        finally:
            if not is_well:
                leave(1)

    threading.Thread(target=run, name=name, daemon=True).start()
