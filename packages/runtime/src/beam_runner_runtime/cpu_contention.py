"""Measurement of CPU contention: the factor by which other processes slow down the threads of this
process.

The factor is computed from the time for which threads waited for a core, which only Linux reports.
On other systems the factor is always 1.
"""

from __future__ import annotations

import time

from beam_runner_worker.core_times import read_thread_times

MOST = 20.0
"""Maximum slowdown factor."""
TURN_SECONDS = 0.05
"""Approximate time (s) for one bundle of a source and all later bundles that process its output, on an idle machine."""
_LOOK_SECONDS = 1.0
_LEAST_RAN = 0.01


class CpuSlowdown:
    """Slowdown factor of this process over the last second or more, compared with dedicated cores; not thread-safe."""

    def __init__(self) -> None:
        self._factor = 1.0
        self._looked = time.monotonic()
        self._times = read_thread_times()

    def compute_bundle_seconds(self, least: float) -> float:
        """Returns the duration (s) after which a source's bundle should end: at least ``least``,
        and longer on a busy machine.
        """
        return max(least, TURN_SECONDS * self.measure_factor())

    def measure_factor(self) -> float:
        """Returns the slowdown factor, from 1 to ``MOST``. Measures the factor at most once per
        second.
        """
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return self._factor
        before, times = self._times, read_thread_times()
        ran = sum(told.ran - before[n].ran for n, told in times.items() if n in before)
        waited = sum(told.waited - before[n].waited for n, told in times.items() if n in before)
        self._looked, self._times = time.monotonic(), times
        # Keep the previous factor while the process is idle, because little CPU time gives no
        # useful measurement.
        if ran >= _LEAST_RAN:
            self._factor = min(MOST, 1.0 + waited / ran)
        return self._factor
