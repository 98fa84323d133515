"""Queue of events for the thread of a job."""

from __future__ import annotations

import queue
import time
from collections import deque

from beam_runner_driver.job.job_events import CancelRequested, Item, SuspendRequested


class EventQueue:
    """Queue of events for the thread of a job. Any thread can call ``add_event``; only the job's
    thread can call the other methods.
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._seen: deque[Item] = deque()

    def add_event(self, item: Item) -> None:
        """Adds an event to the queue; any thread can call this method."""
        self._queue.put(item)

    def wait_for_event(self, seconds: float) -> Item | None:
        """Returns the next event, or None if no event arrives within `seconds`."""
        if self._seen:
            return self._seen.popleft()
        try:
            return self._queue.get(timeout=seconds)
        except queue.Empty:
            return None

    def take_events(self, seconds: float) -> list[Item]:
        """Returns all queued events. Waits up to `seconds` for the first event."""
        first = self.wait_for_event(seconds)
        items = [] if first is None else [first, *self._seen]
        self._seen.clear()
        try:
            while items:
                items.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return items

    def wait_without_end_request(self, seconds: float) -> bool:
        """Waits for `seconds`, and returns True. Returns False early if a request to cancel or
        suspend the job arrives.

        The method removes no events from the queue, and their order doesn't change.
        """
        until = time.monotonic() + seconds
        while not any(isinstance(item, CancelRequested | SuspendRequested) for item in self._seen):
            left = until - time.monotonic()
            if left <= 0:
                return True
            try:
                self._seen.append(self._queue.get(timeout=left))
            except queue.Empty:
                return True
        return False
