"""Timers past the end of their window: their order, and where loops of them stop.

When a window expires, the timers that still wait in it ring before its state is released. Timers
that they set ring too. A timer that sets itself again and again stops, because a chain of timers
past the end has a timer family once: a chain is a timer that rang past the end, a timer that it
set, a timer that this one set, and so on. A processing-time timer begins a new chain when the input
has ended without a drain, because bounded input ends when all that was set for the clock is done.
"""

from __future__ import annotations

import attrs
from beam_runner_model.times import Timestamp

from beam_runner_engine.keyed.timers import TimeDomain, Timer, TimerTable

_Place = tuple[bytes, bytes]


class Endings:
    """The timers of windows that have ended, by key and window.

    User code runs one timer of a key and window at a time. So it is known which chain the timers
    continue that it sets.
    """

    def __init__(self, timers: TimerTable) -> None:
        self._timers = timers
        self._chains: dict[_Place, tuple[str, ...]] = {}
        self._waiting: dict[_Place, list[Timer]] = {}

    def first(self, key: bytes, window: bytes) -> Timer | None:
        """Returns the timer of an ended window that rings next, None without any.

        Event-time timers come first, then those in processing time, each by time.
        """
        waiting = self._waiting.get((key, window))
        if waiting is None:
            waiting = sorted(self._timers.of_window(key, window), key=_order, reverse=True)
            self._waiting[key, window] = waiting
        return waiting[-1] if waiting else None

    def ring(self, timer: Timer, *, at_end: bool) -> None:
        """Notes that a timer rings: user code runs it next for its key and window.

        `at_end` says that it rings past the end of its window. The timer must not be set any more.
        """
        place = (timer.key, timer.window)
        waiting = self._waiting.get(place)
        if waiting and waiting[-1] == timer:
            waiting.pop()
        if at_end or timer.chain:
            self._chains[place] = (*timer.chain, timer.family)
        else:
            self._chains.pop(place, None)

    def link(self, timer: Timer, *, loops: bool) -> Timer | None:
        """Returns a timer that is set now with its chain, None if the chain has its family already.

        `loops` says that a processing-time timer begins a new chain.
        """
        self.change(timer.key, timer.window)
        chain = self._chains.get((timer.key, timer.window), ())
        if timer.domain is TimeDomain.PROCESSING_TIME and loops:
            chain = ()
        if timer.family in chain:
            return None
        return attrs.evolve(timer, chain=chain) if chain else timer

    def change(self, key: bytes, window: bytes) -> None:
        """Notes that a timer of a window is set or cleared."""
        self._waiting.pop((key, window), None)

    def forget(self, key: bytes, window: bytes) -> None:
        """Forgets a window whose state is released."""
        self._chains.pop((key, window), None)
        self.change(key, window)


def _order(timer: Timer) -> tuple[bool, Timestamp, str, str]:
    in_processing_time = timer.domain is TimeDomain.PROCESSING_TIME
    return in_processing_time, timer.fire_time, timer.family, timer.tag
