"""The current activity of a worker process. The process's heartbeats report this activity to the
server.
"""

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
"""Activities by priority. If several run at the same time, heartbeats report the activity that comes first here."""


class ActivityCounter:
    """Counter of a worker process's activities, such as running a bundle. Several activities can
    run at the same time. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[WorkerActivity] = Counter()

    @contextmanager
    def track_activity(self, doing: WorkerActivity) -> Iterator[None]:
        """Counts an activity of the calling thread as running, within a ``with`` block."""
        with self._lock:
            self._counts[doing] += 1
        try:
            yield
        finally:
            with self._lock:
                self._counts[doing] -= 1

    def get_current_activity(self) -> WorkerActivity:
        """Returns the current activity with the highest priority."""
        with self._lock:
            return next((doing for doing in _FIRST if self._counts[doing]), WorkerActivity.IDLE)
