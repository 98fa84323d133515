"""How much of a core the threads of a process want: what they run, and what they wait to run."""

from __future__ import annotations

import time

from beam_runner_worker.core_times import core_times

_LEAST_SECONDS = 0.1
_MOST_SECONDS = 3.0


class Demand:
    """The demand of one process, which is named by its id on this machine."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._since = time.monotonic()
        self._threads = core_times(process)

    def share(self) -> float | None:
        """Cores wanted since the last call, or since it was made; None if that is not known.

        Nothing is known from a moment alone, nor from a time that is mostly long ago.
        """
        now, threads, before = time.monotonic(), core_times(self._process), self._threads
        wanted = sum(told.wanted - before.get(n, told).wanted for n, told in threads.items())
        elapsed = now - self._since
        self._since, self._threads = now, threads
        if not threads or not _LEAST_SECONDS <= elapsed <= _MOST_SECONDS:
            return None
        return wanted / elapsed
