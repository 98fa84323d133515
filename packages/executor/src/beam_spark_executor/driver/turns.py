"""Whose turn it is to begin: of many jobs that come at once most wait, in their order, for others.

Each job that runs needs processes of its own, and jobs that all take turns at the cores end no sooner
than those that begin one after the other. A job counts for its first seconds only: streams and long
jobs hold nobody up, and share the cluster's slots with whoever comes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from beam_spark_executor.tuning import TUNING


class Turns:
    """All methods may be called from any thread.

    Args:
        most: how many jobs that count there may be.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._waiting: dict[str, Callable[[], None]] = {}
        self._begun: dict[str, float] = {}

    def take(self, job_id: str, wake: Callable[[], None]) -> bool:
        """Whether a job may begin; one that may not is to ask again, and stands behind others.

        Args:
            job_id: the job's.
            wake: called when the end of another job makes it worth asking; may be called in vain.
        """
        with self._lock:
            if job_id not in self._begun:
                self._waiting.setdefault(job_id, wake)
                if job_id not in self._next():
                    return False
                del self._waiting[job_id]
                self._begun[job_id] = time.monotonic()
            return True

    def leave(self, job_id: str) -> None:
        """A job has ended, whether it had begun or not."""
        with self._lock:
            self._waiting.pop(job_id, None)
            self._begun.pop(job_id, None)
            wakes = [self._waiting[each] for each in self._next()]
        for wake in wakes:
            wake()

    def _next(self) -> list[str]:
        """Those that may begin now."""
        limit = time.monotonic() - TUNING.job_turn_seconds
        free = self._most - sum(began > limit for began in self._begun.values())
        return [job_id for place, job_id in enumerate(self._waiting) if place < free]
