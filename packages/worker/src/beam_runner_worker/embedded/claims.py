"""Numbers of a bundle's elements, which the processing loop claims and a split takes away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from operator import length_hint

import attrs


@attrs.define
class ClaimPosition:
    """The position of the loop while claims are paused.

    Attributes:
        claimed: the number of claimed elements; the loop may be processing the last one.
        announced: the number of elements that the bundle has so far.
        stop: the number of the first element that the loop must not claim, or None. It may be
            lowered, but not below ``claimed``.
    """

    claimed: int
    announced: int
    stop: int | None


class ElementClaims:
    """The owner of each element: the loop claims elements one by one, and a split gives the last ones
    away.

    Elements are numbered from 0 in the order of the bundle. Invariant: the loop gets each number
    below ``claimed`` exactly once and in order, and no number from the stop on.

    The loop claims by iterating over a range, without a lock, so a claim costs nothing. A split
    drains the loop's iterator with one built-in function. That function holds the GIL, so no other
    thread runs, and the result is exactly the unclaimed part. The loop's iterator is then
    exhausted, so the loop calls :meth:`get_remaining_claims`, which waits for the end of the split.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.start_bundle()

    def start_bundle(self) -> None:
        """Begins a new bundle at 0."""
        with self._lock:
            self._announced = 0
            self._stop: int | None = None
            self._left: Iterator[int] = iter(())

    def add_elements(self, count: int) -> Iterator[int]:
        """Adds elements; iterate over the result to claim them."""
        with self._lock:
            start = self._claimable_end
            self._announced += count
            self._left = iter(range(start, self._claimable_end))
            return self._left

    def get_remaining_claims(self) -> Iterator[int] | None:
        """Returns the rest to claim when an iterator is exhausted: None, unless a split drained the iterator."""
        with self._lock:
            return self._left if length_hint(self._left) else None

    def end_input(self) -> None:
        """Ends the input, so that no element can be given away any more."""
        with self._lock:
            self._stop = self._claimable_end

    @property
    def claimed_count(self) -> int:
        """The number of elements claimed since :meth:`start_bundle`; correct from any thread."""
        with self._lock:
            return self._claimable_end - length_hint(self._left)

    @property
    def is_stopped(self) -> bool:
        """Whether no further element will be claimed, even if more are added."""
        with self._lock:
            return self._stop is not None and self._announced >= self._stop

    @contextmanager
    def pause_claims(self) -> Iterator[ClaimPosition]:
        """Pauses claims within the block; the loop may continue with its current element."""
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
        """The number after the last added element that the loop may claim."""
        return self._announced if self._stop is None else min(self._announced, self._stop)
