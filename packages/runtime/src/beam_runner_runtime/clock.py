"""Clock for processing time. It starts at the wall-clock time, and then follows the machine's
monotonic clock.

A wall clock can be set back, and processing-time timers that use it would then wait too long. So
the server reads the wall clock only once per job, and the job's clock never goes back.
"""

from __future__ import annotations

import time

from beam_runner_model.times import Timestamp

_SAME_MS = 1000
"""Difference (ms) below which two clocks count as equal."""


class ProcessingClock:
    """Clock for processing time (ms since 1970); thread-safe.

    Args:
        at_least: latest processing time that the job has recorded, possibly on another server. The
            clock doesn't start before it.
    """

    def __init__(self, at_least: Timestamp = 0) -> None:
        self._offset = max(_read_wall_clock(), at_least) - _read_monotonic_clock()

    @classmethod
    def create_synchronized_clock(cls, now: Timestamp) -> ProcessingClock:
        """Returns a clock that is synchronized with a remote clock. ``now`` is the time that the
        remote clock showed when its message was sent.

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

    def convert_wall_clock_time(self, told: Timestamp) -> Timestamp:
        """Converts wall-clock time, as SDKs report it, to the processing time of the job."""
        ahead = _read_wall_clock() - self.now()
        return told if abs(ahead) < _SAME_MS else told - ahead


def _read_wall_clock() -> int:
    return time.time_ns() // 1_000_000


def _read_monotonic_clock() -> int:
    return time.monotonic_ns() // 1_000_000
