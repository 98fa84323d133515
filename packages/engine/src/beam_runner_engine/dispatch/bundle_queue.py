"""Queue of bundles that wait for a slot.

Bundles run in order of arrival, but bundles of sources run after other bundles that arrive shortly
later. The output of a source is thus processed before the source emits more, and no source waits
without limit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush

from beam_runner_engine.scheduler.commands import Bundle


class BundleQueue:
    """Queue of open bundles that wait for a slot.

    `is_source` returns whether a bundle belongs to a source that could run for long. Such a bundle
    runs after all bundles that arrive within the next `source_seconds`.

    Attributes:
        non_source_count: the number of queued bundles that don't belong to sources.
    """

    def __init__(self, is_source: Callable[[Bundle], bool], source_seconds: float) -> None:
        self.is_source = is_source
        self._source_seconds = source_seconds
        self._heap: list[tuple[float, int, Bundle]] = []
        self._count = 0
        self.non_source_count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Bundle]:
        return (bundle for _, _, bundle in self._heap)

    def add_bundles(self, bundles: Iterable[Bundle], now: float) -> None:
        """Adds bundles at time `now` (seconds on any monotonic clock)."""
        for bundle in bundles:
            is_source = self.is_source(bundle)
            turn = now + self._source_seconds * is_source
            self.non_source_count += not is_source
            heappush(self._heap, (turn, self._count, bundle))
            self._count += 1

    def take_next_bundle(self) -> Bundle:
        """Removes and returns the bundle that must run next."""
        bundle = heappop(self._heap)[2]
        self.non_source_count -= not self.is_source(bundle)
        return bundle

    def remove_bundles(self, attempts: Collection[tuple[int, int]]) -> None:
        """Removes the queued bundles among `attempts`, which are pairs of a bundle's number and attempt.

        The cost grows with the length of the queue, so remove bundles together.
        """
        unwanted = frozenset(attempts)
        self._heap = [
            item for item in self._heap if (item[2].number, item[2].attempt) not in unwanted
        ]
        heapify(self._heap)
        self.non_source_count = sum(not self.is_source(bundle) for bundle in self)

    def remove_all_bundles(self) -> None:
        """Removes all bundles from the queue."""
        self._heap.clear()
        self.non_source_count = 0
