"""The current activity of a worker process, which its heartbeats report to the server."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from beam_runner_runtime.channel.messages import WorkerActivity

_FIRST = (
    WorkerActivity.BUNDLE,
    WorkerActivity.NEIGHBOUR,
    WorkerActivity.LOOP,
    WorkerActivity.ORDER,
)
"""Activities in order of priority. If several run at the same time, heartbeats report the first in this tuple."""


class ActivityCounter:
    """Counter of the activities that run at the same time in a worker process; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[WorkerActivity] = Counter()

    @contextmanager
    def track_activity(self, doing: WorkerActivity) -> Iterator[None]:
        """Counts an activity of the calling thread until the ``with`` block ends."""
        with self._lock:
            self._counts[doing] += 1
        try:
            yield
        finally:
            with self._lock:
                self._counts[doing] -= 1

    def current_activity(self) -> WorkerActivity:
        """Returns the current activity with the highest priority."""
        with self._lock:
            return next((doing for doing in _FIRST if self._counts[doing]), WorkerActivity.IDLE)
