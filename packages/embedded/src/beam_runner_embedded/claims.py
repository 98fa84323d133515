"""Claims of a bundle's elements: the processing loop claims elements one by one, and a split removes
unclaimed elements from the bundle.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from operator import length_hint

import attrs


@attrs.define
class ClaimPosition:
    """Position of the loop that processes the elements of a bundle, while claims are paused.

    Attributes:
        claimed: number of claimed elements. The loop may still be processing the last claimed
            element.
        announced: number of elements that were added to the bundle so far.
        stop: index of the first element that the loop must not claim, or None. A caller may lower
            the index, but not below ``claimed``.
    """

    claimed: int
    announced: int
    stop: int | None


class ElementClaims:
    """Record of which elements belong to the bundle: the processing loop claims elements one by one,
    and a split removes elements from the end.

    Elements are numbered from 0 in the order of the bundle. Invariant: the loop gets each index
    below ``claimed`` exactly once, in order, and never gets an index at or after the stop.

    The loop claims by iterating over a range, without a lock, so a claim costs nothing. A split
    drains the loop's iterator with one built-in function. That function holds the GIL, so no other
    thread runs, and the result is exactly the unclaimed part. The loop's iterator is then
    exhausted, so the loop calls :meth:`get_remaining_claims`, which waits for the end of the split.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.start_bundle()

    def start_bundle(self) -> None:
        """Resets the indexes to 0 for a new bundle."""
        with self._lock:
            self._announced = 0
            self._stop: int | None = None
            self._left: Iterator[int] = iter(())

    def add_elements(self, count: int) -> Iterator[int]:
        """Adds elements to the bundle, and returns an iterator over their indexes. Each step of the
        iterator claims an element.
        """
        with self._lock:
            start = self._claimable_end
            self._announced += count
            self._left = iter(range(start, self._claimable_end))
            return self._left

    def get_remaining_claims(self) -> Iterator[int] | None:
        """Returns an iterator over the remaining elements after a split has drained the caller's
        iterator; None if no elements remain.
        """
        with self._lock:
            return self._left if length_hint(self._left) else None

    def end_input(self) -> None:
        """Ends the input of the bundle, so that later splits can't remove elements."""
        with self._lock:
            self._stop = self._claimable_end

    @property
    def claimed_count(self) -> int:
        """Number of elements that were claimed since :meth:`start_bundle`. Any thread may read it."""
        with self._lock:
            return self._claimable_end - length_hint(self._left)

    @property
    def is_stopped(self) -> bool:
        """Whether the processing loop will claim no further elements, even if more elements are
        added.
        """
        with self._lock:
            return self._stop is not None and self._announced >= self._stop

    @contextmanager
    def pause_claims(self) -> Iterator[ClaimPosition]:
        """Pauses claims while the context is active. The loop may finish its current element."""
        with self._lock:
            claimed = min(self._left, default=self._claimable_end)
            held = ClaimPosition(claimed, self._announced, self._stop)
            try:
                yield held
            finally:
                self._stop = held.stop
                self._left = iter(range(claimed, self._claimable_end))

    @property
    def _claimable_end(self) -> int:
        """Index after the last added element that the loop may claim."""
        return self._announced if self._stop is None else min(self._announced, self._stop)
