"""Numbers a bundle's elements as they are taken, and takes back those that a split gives away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from operator import length_hint

import attrs


@attrs.define
class Held:
    """How far the loop is while it is held.

    Attributes:
        claimed: how many elements it has claimed; it may be at work on the last of them.
        announced: how many the bundle has been given until now.
        stop: the number of the first element that it must not claim, or None. May be lowered, not
            below ``claimed``.
    """

    claimed: int
    announced: int
    stop: int | None


class Claims:
    """Who has which element: the loop claims them one by one, a split gives the last ones away.

    Elements are numbered from 0 in the order of the bundle. Invariant: the numbers below
    ``claimed`` were each given to the loop, once and in order; none from the stop on ever is.

    The loop claims by iterating over a range, without a lock, so claiming costs nothing. A split
    drains the loop's iterator with one built-in function. No other thread runs meanwhile (that
    takes the GIL, which it does not let go), so what it gets is exactly what is not claimed. The
    loop then runs dry and asks for :meth:`more`, which waits for the split to end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.restart()

    def restart(self) -> None:
        """Begins a new bundle at 0."""
        with self._lock:
            self._announced = 0
            self._stop: int | None = None
            self._left: Iterator[int] = iter(())

    def announce(self, count: int) -> Iterator[int]:
        """So many more elements are there: iterate over what is returned to claim them."""
        with self._lock:
            start = self._end
            self._announced += count
            self._left = iter(range(start, self._end))
            return self._left

    def more(self) -> Iterator[int] | None:
        """What is left to claim when an iterator is exhausted: None, unless a split drained it."""
        with self._lock:
            return self._left if length_hint(self._left) else None

    def finish(self) -> None:
        """No more elements will come, so nothing can be given away any more."""
        with self._lock:
            self._stop = self._end

    @property
    def claimed(self) -> int:
        """How many elements were claimed since :meth:`restart`; right from any thread."""
        with self._lock:
            return self._end - length_hint(self._left)

    @property
    def stopped(self) -> bool:
        """Whether no further element will be claimed, even if more are announced."""
        with self._lock:
            return self._stop is not None and self._announced >= self._stop

    @contextmanager
    def held(self) -> Iterator[Held]:
        """Within the block no element is claimed; the loop may go on with the one that it has."""
        with self._lock:
            claimed = min(self._left, default=self._end)
            held = Held(claimed, self._announced, self._stop)
            try:
                yield held
            finally:
                self._stop = held.stop
                self._left = iter(range(claimed, self._end))

    @property
    def _end(self) -> int:
        """The number after the last element that the loop may claim of those announced."""
        return self._announced if self._stop is None else min(self._announced, self._stop)
