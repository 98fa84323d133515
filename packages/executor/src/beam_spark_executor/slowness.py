"""How much slower threads get on than they would alone: Linux tells how long each waited for a core.

Elsewhere nothing is known, and a machine counts as never crowded.
"""

from __future__ import annotations

import os
import time

import attrs

MOST = 20.0
"""However crowded a machine is, nothing counts as slower than this many times."""
TURN_SECONDS = 0.05
"""What a turn of a source costs, about, with all bundles that it brings, where nothing is in their way."""
_LOOK_SECONDS = 1.0
_LEAST_RAN = 0.01


@attrs.frozen
class CoreTime:
    """Seconds that a thread, or several, ran on a core and waited for one."""

    ran: float
    waited: float

    @property
    def wanted(self) -> float:
        """For how long it would have run if it had been alone."""
        return self.ran + self.waited


def core_time(thread: int) -> CoreTime | None:
    """That of a thread of this process by its native id; None if it is not known."""
    try:
        with open(f"/proc/self/task/{thread}/schedstat", "rb") as file:
            ran, waited, _ = file.read().split()
    except (OSError, ValueError):
        return None
    return CoreTime(int(ran) / 1e9, int(waited) / 1e9)


class Slowness:
    """How many times longer this process takes than it would on cores of its own, of late.

    Not safe for use by several threads at once.
    """

    def __init__(self) -> None:
        self._factor = 1.0
        self._looked = time.monotonic()
        self._times = _all_threads()

    def turn(self, least: float) -> float:
        """How long a turn is to last: at least so many seconds, and as long as its costs take now."""
        return max(least, TURN_SECONDS * self.now())

    def now(self) -> float:
        """The factor, from 1 to ``MOST``; it is looked for anew once a second."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return self._factor
        before, times = self._times, _all_threads()
        ran = sum(told.ran - before[n].ran for n, told in times.items() if n in before)
        waited = sum(told.waited - before[n].waited for n, told in times.items() if n in before)
        self._looked, self._times = time.monotonic(), times
        # Of a process that did next to nothing there is nothing to see.
        if ran >= _LEAST_RAN:
            self._factor = min(MOST, 1.0 + waited / ran)
        return self._factor


def _all_threads() -> dict[int, CoreTime]:
    try:
        threads = [int(name) for name in os.listdir("/proc/self/task")]
    except OSError:
        return {}
    times = {thread: core_time(thread) for thread in threads}
    return {thread: told for thread, told in times.items() if told is not None}
