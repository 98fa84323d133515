"""Processing time: begun by the wall clock, and from then on as steady as the machine's monotonic clock.

A wall clock is set forward and back. A job whose timers waited for it would stand still until it is right
again; so a job asks it once, when a server begins with it, and never goes behind what it has seen before.
"""

from __future__ import annotations

import time

from beam_runner_model.times import Timestamp

_SAME_MS = 1000
"""Clocks that differ by less are taken to tell the same time."""


class ProcessingClock:
    """Tells processing time (ms since 1970); may be used from any thread.

    Args:
        at_least: what was told before, by another server perhaps.
    """

    def __init__(self, at_least: Timestamp = 0) -> None:
        self._offset = max(_wall(), at_least) - _steady()

    @classmethod
    def showing(cls, now: Timestamp) -> ProcessingClock:
        """One that shows what another one does elsewhere, which has shown this time a moment ago.

        Where the wall clock here tells that time too, it says how long the moment was: a clock that
        runs behind the other one would have what is to wait here resumed too early there.
        """
        clock = cls()
        if not 0 <= _wall() - now < _SAME_MS:
            clock._offset = now - _steady()
        return clock

    def now(self) -> Timestamp:
        """Processing time; never goes back."""
        return _steady() + self._offset

    def of_wall(self, told: Timestamp) -> Timestamp:
        """The processing time that somebody means who looks at the wall clock, as SDKs do."""
        ahead = _wall() - self.now()
        return told if abs(ahead) < _SAME_MS else told - ahead


def _wall() -> int:
    return time.time_ns() // 1_000_000


def _steady() -> int:
    return time.monotonic_ns() // 1_000_000
