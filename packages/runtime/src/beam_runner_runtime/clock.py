"""Processing time: starts with the wall clock, and then advances with the machine's monotonic clock.

A wall clock can be set forward and back. If it is set back, a job whose timers wait for it would
stall. So the server reads the wall clock once per job, and the job's clock never goes behind an
earlier time of the job.
"""

from __future__ import annotations

import time

from beam_runner_model.times import Timestamp

_SAME_MS = 1000
"""Difference (ms) below which two clocks count as equal."""


class ProcessingClock:
    """Clock for processing time (ms since 1970); thread-safe.

    Args:
        at_least: latest earlier time of the job, also on another server.
    """

    def __init__(self, at_least: Timestamp = 0) -> None:
        self._offset = max(_read_wall_clock(), at_least) - _read_monotonic_clock()

    @classmethod
    def synchronized_with(cls, now: Timestamp) -> ProcessingClock:
        """Returns a clock that is synchronized with a remote clock, which showed ``now`` a moment ago.

        If the local wall clock and the remote clock agree, the local clock measures the
        transmission time. Without that correction, this clock would be behind the remote clock, and
        the remote side would resume deferred work too early.
        """
        clock = cls()
        if not 0 <= _read_wall_clock() - now < _SAME_MS:
            clock._offset = now - _read_monotonic_clock()
        return clock

    def now(self) -> Timestamp:
        """Returns the processing time (ms), which never decreases."""
        return _read_monotonic_clock() + self._offset

    def from_wall_clock(self, told: Timestamp) -> Timestamp:
        """Converts a time of the wall clock, which SDKs use, to processing time."""
        ahead = _read_wall_clock() - self.now()
        return told if abs(ahead) < _SAME_MS else told - ahead


def _read_wall_clock() -> int:
    return time.time_ns() // 1_000_000


def _read_monotonic_clock() -> int:
    return time.monotonic_ns() // 1_000_000
