"""How much of a core the threads of a process want: what they run, and what they wait to run.

Linux tells both for every thread; everywhere else nothing is known.
"""

from __future__ import annotations

import os
import time

_LEAST_SECONDS = 0.1
_MOST_SECONDS = 3.0


class Demand:
    """The demand of one process, which is named by its id on this machine."""

    def __init__(self, process: int) -> None:
        self._tasks = f"/proc/{process}/task/"
        self._since = time.monotonic()
        self._threads = self._read()

    def share(self) -> float | None:
        """Cores wanted since the last call, or since it was made; None if that is not known.

        Nothing is known from a moment alone, nor from a time that is mostly long ago.
        """
        now, threads = time.monotonic(), self._read()
        wanted = sum(told - self._threads.get(thread, told) for thread, told in threads.items())
        elapsed = now - self._since
        self._since, self._threads = now, threads
        if not threads or not _LEAST_SECONDS <= elapsed <= _MOST_SECONDS:
            return None
        return wanted / 1e9 / elapsed

    def _read(self) -> dict[str, int]:
        """Nanoseconds of every thread, run or waited for a core."""
        told: dict[str, int] = {}
        try:
            threads = os.listdir(self._tasks)
        except OSError:
            return told
        for thread in threads:
            try:
                with open(f"{self._tasks}{thread}/schedstat") as file:
                    ran, waited, _ = file.read().split()
            except (OSError, ValueError):
                # The thread has just ended.
                continue
            told[thread] = int(ran) + int(waited)
        return told
