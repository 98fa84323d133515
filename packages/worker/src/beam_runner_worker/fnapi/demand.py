"""Measurement of the CPU demand of a process: the CPU time and the run-queue wait of its threads."""

from __future__ import annotations

import time

from beam_runner_worker.core_times import read_thread_times

_LEAST_SECONDS = 0.1
_MOST_SECONDS = 3.0


class CpuDemand:
    """Meter of the CPU demand of one process of this machine."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._since = time.monotonic()
        self._threads = read_thread_times(process)

    def measure_requested_cores(self) -> float | None:
        """Returns the mean number of cores that the process could have used since the last call or the
        creation of the meter; None if unknown.

        The result is None for an interval below 0.1 s or above 3 s.
        """
        now, threads, before = time.monotonic(), read_thread_times(self._process), self._threads
        wanted = sum(
            told.demanded_seconds - before.get(n, told).demanded_seconds
            for n, told in threads.items()
        )
        elapsed = now - self._since
        self._since, self._threads = now, threads
        if not threads or not _LEAST_SECONDS <= elapsed <= _MOST_SECONDS:
            return None
        return wanted / elapsed
