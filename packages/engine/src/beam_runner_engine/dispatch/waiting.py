"""The bundles that wait for a place to run, in the order in which they are to run.

That is the order in which they came, but that bundles of sources stand behind what comes a little
later: what a source has given is to be seen before it gives more, and yet a source is never forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush

from beam_runner_engine.scheduler.commands import Bundle


class WaitingBundles:
    """Is given bundles as they are opened, and gives back the one whose turn it is.

    `is_source` says whether a bundle is of a source that would go on for long. Such a one stands behind what
    comes up to `source_seconds` later.
    """

    def __init__(self, is_source: Callable[[Bundle], bool], source_seconds: float) -> None:
        self.is_source = is_source
        self._source_seconds = source_seconds
        self._heap: list[tuple[float, int, Bundle]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Bundle]:
        return (bundle for _, _, bundle in self._heap)

    @property
    def not_of_sources(self) -> int:
        """Says how many are of no source."""
        return sum(not self.is_source(bundle) for bundle in self)

    def add(self, bundles: Iterable[Bundle], now: float) -> None:
        """Takes more that wait, at `now`: seconds of any clock that never goes back."""
        for bundle in bundles:
            turn = now + self._source_seconds * self.is_source(bundle)
            heappush(self._heap, (turn, self._count, bundle))
            self._count += 1

    def take(self) -> Bundle:
        """Removes and returns the one whose turn it is."""
        return heappop(self._heap)[2]

    def discard(self, number: int, attempt: int) -> None:
        """Forgets a bundle, if it waits."""
        unwanted = (number, attempt)
        self._heap = [item for item in self._heap if (item[2].number, item[2].attempt) != unwanted]
        heapify(self._heap)

    def clear(self) -> None:
        """Forgets all."""
        self._heap.clear()
