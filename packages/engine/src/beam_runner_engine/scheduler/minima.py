"""Minima of changing sets of times, with updates in logarithmic time. All watermarks are based on
these minima.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

import attrs
from beam_runner_model.times import MAX_TIMESTAMP, Timestamp

Key = TypeVar("Key")

_SLACK = 16
"""Maximum number of stale heap entries beyond the number of current entries."""


@attrs.define(eq=False)
class TimeMultiset:
    """Multiset of times (ms) with fast access to the earliest time."""

    _counts: dict[Timestamp, int] = attrs.field(factory=dict)
    _heap: list[Timestamp] = attrs.field(factory=list)

    def __len__(self) -> int:
        """Returns the number of distinct times."""
        return len(self._counts)

    def add_time(self, time: Timestamp, count: int = 1) -> None:
        """Adds a time to the multiset, with multiplicity `count`."""
        before = self._counts.get(time)
        if before is None:
            self._counts[time] = count
            heappush(self._heap, time)
        else:
            self._counts[time] = before + count

    def remove_time(self, time: Timestamp, count: int = 1) -> None:
        """Removes a time from the multiset, with multiplicity `count`.

        Raises:
            ValueError: If the multiset contains the time fewer than `count` times.
        """
        left = self._counts.get(time, 0) - count
        if left < 0:
            raise ValueError(
                f"Can't remove the time {time} ms: removed {-left} times more than added"
            )
        if left:
            self._counts[time] = left
            return
        del self._counts[time]
        if len(self._heap) > 2 * len(self._counts) + _SLACK:
            self._heap = list(self._counts)
            heapify(self._heap)

    def get_earliest_time(self) -> Timestamp:
        """Returns the earliest time (ms), or `MAX_TIMESTAMP` if the multiset is empty."""
        heap = self._heap
        while heap and heap[0] not in self._counts:
            heappop(heap)
        return heap[0] if heap else MAX_TIMESTAMP


@attrs.define(eq=False)
class KeyedMinimum(Generic[Key]):
    """Map from keys to times (ms) with fast access to the earliest time. Keys must be mutually
    comparable.
    """

    _times: dict[Key, Timestamp] = attrs.field(factory=dict)
    _heap: list[tuple[Timestamp, Any]] = attrs.field(factory=list)

    def __len__(self) -> int:
        return len(self._times)

    def get_time(self, key: Key) -> Timestamp | None:
        """Returns the time of a key (ms), or None if the map doesn't contain the key."""
        return self._times.get(key)

    def set_time(self, key: Key, time: Timestamp | None) -> None:
        """Sets the time of a key (ms), or removes the key if the time is None."""
        if time is None:
            self._times.pop(key, None)
        elif self._times.get(key) != time:
            self._times[key] = time
            heappush(self._heap, (time, key))
        if len(self._heap) > 2 * len(self._times) + _SLACK:
            self._heap = [(time, key) for key, time in self._times.items()]
            heapify(self._heap)

    def get_earliest_time(self) -> Timestamp:
        """Returns the earliest time (ms) of all keys, or `MAX_TIMESTAMP` if the map is empty."""
        self._drop_stale_entries()
        return self._heap[0][0] if self._heap else MAX_TIMESTAMP

    def pop_due_keys(self, time: Timestamp) -> Iterator[Key]:
        """Removes and yields the keys with a time of at most `time` (ms), earliest first."""
        while True:
            self._drop_stale_entries()
            if not self._heap or self._heap[0][0] > time:
                return
            key = heappop(self._heap)[1]
            del self._times[key]
            yield key

    def _drop_stale_entries(self) -> None:
        heap, times = self._heap, self._times
        while heap and times.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
