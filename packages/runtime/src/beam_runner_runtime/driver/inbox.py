"""What has happened to a job and waits for the job's thread, in order."""

from __future__ import annotations

import queue
import time
from collections import deque

from beam_runner_runtime.driver.happenings import CancelAsked, Item, Suspend


class Inbox:
    """``put`` may be called from any thread, the other methods from the job's own."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._seen: deque[Item] = deque()

    def put(self, item: Item) -> None:
        """Adds what has happened."""
        self._queue.put(item)

    def next(self, seconds: float) -> Item | None:
        """Returns the next item, or None if none comes within so many seconds."""
        if self._seen:
            return self._seen.popleft()
        try:
            return self._queue.get(timeout=seconds)
        except queue.Empty:
            return None

    def all(self, seconds: float) -> list[Item]:
        """Returns all items that are there; waits for the first one so many seconds at most."""
        first = self.next(seconds)
        items = [] if first is None else [first, *self._seen]
        self._seen.clear()
        try:
            while items:
                items.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return items

    def is_quiet(self, seconds: float) -> bool:
        """Waits so many seconds; returns False as soon as the job is to end or to stop.

        All items stay, in their order.
        """
        until = time.monotonic() + seconds
        while not any(isinstance(item, CancelAsked | Suspend) for item in self._seen):
            left = until - time.monotonic()
            if left <= 0:
                return True
            try:
                self._seen.append(self._queue.get(timeout=left))
            except queue.Empty:
                return True
        return False
