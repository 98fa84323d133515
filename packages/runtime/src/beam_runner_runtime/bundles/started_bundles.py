"""Number of bundles that a worker process has started, by stage. Heartbeats report it to the
server, because lost bundles don't send a result.
"""

from __future__ import annotations

import threading
from collections import Counter


class StartedBundleCounts:
    """Number of started bundles per stage in this process; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._untold: set[str] = set()

    def count_started_bundle(self, stage: str) -> None:
        """Counts a started bundle of a stage."""
        with self._lock:
            self._counts[stage] += 1
            self._untold.add(stage)

    def take_unreported_counts(self) -> tuple[tuple[str, int], ...]:
        """Returns pairs of stage and count, for the stages whose count changed since the last call."""
        with self._lock:
            untold = tuple((stage, self._counts[stage]) for stage in sorted(self._untold))
            self._untold.clear()
            return untold

    def list_counts(self) -> tuple[tuple[str, int], ...]:
        """Returns all pairs of stage and count."""
        with self._lock:
            return tuple(sorted(self._counts.items()))
