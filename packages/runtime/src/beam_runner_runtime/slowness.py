"""How much slower threads get on than they would alone: Linux tells how long each waited for a core.

Elsewhere nothing is known, and a machine counts as never crowded.
"""

from __future__ import annotations

import time

from beam_runner_worker.core_times import core_times

MOST = 20.0
"""However crowded a machine is, nothing counts as slower than this many times."""
TURN_SECONDS = 0.05
"""What a turn of a source costs, about, with all bundles that it brings, where nothing is in their way."""
_LOOK_SECONDS = 1.0
_LEAST_RAN = 0.01


class Slowness:
    """How many times longer this process takes than it would on cores of its own, of late.

    Not safe for use by several threads at once.
    """

    def __init__(self) -> None:
        self._factor = 1.0
        self._looked = time.monotonic()
        self._times = core_times()

    def turn(self, least: float) -> float:
        """How long a turn is to last: at least so many seconds, and as long as its costs take now."""
        return max(least, TURN_SECONDS * self.now())

    def now(self) -> float:
        """The factor, from 1 to ``MOST``; it is looked for anew once a second."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return self._factor
        before, times = self._times, core_times()
        ran = sum(told.ran - before[n].ran for n, told in times.items() if n in before)
        waited = sum(told.waited - before[n].waited for n, told in times.items() if n in before)
        self._looked, self._times = time.monotonic(), times
        # Of a process that did next to nothing there is nothing to see.
        if ran >= _LEAST_RAN:
            self._factor = min(MOST, 1.0 + waited / ran)
        return self._factor
