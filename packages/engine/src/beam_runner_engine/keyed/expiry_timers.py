"""Timers that fire at the expiry of their window: the order of the timers, and the end of chains of
timers that set each other.

Before the state of an expired window is released, all pending timers of the window fire. Timers
that these timers set also fire. A chain consists of a timer that fires past the end of its window,
a timer that the first timer sets, and so on. To stop loops, each timer family occurs at most once
in a chain. Exception: if the input has ended without a drain, a processing-time timer starts a new
chain, because bounded input must run all its processing-time timers.
"""

from __future__ import annotations

import attrs
from beam_runner_model.times import Timestamp

from beam_runner_engine.keyed.timers import TimeDomain, Timer, TimerTable

_Place = tuple[bytes, bytes]


class ExpiryTimers:
    """Timers of expired windows, by key and window.

    User code runs one timer at a time for each key and window. Therefore, a timer that user code
    sets continues the chain of the timer that is running.
    """

    def __init__(self, timers: TimerTable) -> None:
        self._timers = timers
        self._chains: dict[_Place, tuple[str, ...]] = {}
        self._waiting: dict[_Place, list[Timer]] = {}

    def get_next_timer(self, key: bytes, window: bytes) -> Timer | None:
        """Returns the next timer to fire for an expired window, or None if no timer is set.

        Event-time timers fire first, then processing-time timers, each in order of firing time.
        """
        waiting = self._waiting.get((key, window))
        if waiting is None:
            waiting = sorted(
                self._timers.list_window_timers(key, window),
                key=_get_timer_firing_order,
                reverse=True,
            )
            self._waiting[key, window] = waiting
        return waiting[-1] if waiting else None

    def record_firing(self, timer: Timer, *, at_end: bool) -> None:
        """Records that a timer fires, so that user code runs it next for its key and window.

        Args:
            timer: the timer, which is not set any more.
            at_end: whether the timer fires past the end of its window.
        """
        place = (timer.key, timer.window)
        waiting = self._waiting.get(place)
        if waiting and waiting[-1] == timer:
            waiting.pop()
        if at_end or timer.chain:
            self._chains[place] = (*timer.chain, timer.family)
        else:
            self._chains.pop(place, None)

    def add_to_timer_chain(self, timer: Timer, *, loops: bool) -> Timer | None:
        """Returns a new timer with the chain of timers that led to it, or None if the chain already
        contains the timer family.

        Args:
            timer: the timer that user code sets.
            loops: whether a processing-time timer starts a new chain of timers.
        """
        self.invalidate_timer_order(timer.key, timer.window)
        chain = self._chains.get((timer.key, timer.window), ())
        if timer.domain is TimeDomain.PROCESSING_TIME and loops:
            chain = ()
        if timer.family in chain:
            return None
        return attrs.evolve(timer, chain=chain) if chain else timer

    def invalidate_timer_order(self, key: bytes, window: bytes) -> None:
        """Discards the cached timer order of a window after a timer is set or cleared."""
        self._waiting.pop((key, window), None)

    def forget_window(self, key: bytes, window: bytes) -> None:
        """Discards all data of a window whose state is released."""
        self._chains.pop((key, window), None)
        self.invalidate_timer_order(key, window)


def _get_timer_firing_order(timer: Timer) -> tuple[bool, Timestamp, str, str]:
    in_processing_time = timer.domain is TimeDomain.PROCESSING_TIME
    return in_processing_time, timer.fire_time, timer.family, timer.tag
