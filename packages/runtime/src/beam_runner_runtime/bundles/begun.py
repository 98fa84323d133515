"""A count of the bundles that a worker process has begun, which it tells the server apart from their results."""

from __future__ import annotations

import threading
from collections import Counter


class BegunBundles:
    """How many bundles of each stage this process has begun. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._untold: set[str] = set()

    def note(self, stage: str) -> None:
        """Counts one more bundle of a stage."""
        with self._lock:
            self._counts[stage] += 1
            self._untold.add(stage)

    def take_untold(self) -> tuple[tuple[str, int], ...]:
        """Returns the counts that have changed since the last call."""
        with self._lock:
            untold = tuple((stage, self._counts[stage]) for stage in sorted(self._untold))
            self._untold.clear()
            return untold

    def all(self) -> tuple[tuple[str, int], ...]:
        """Returns all counts."""
        with self._lock:
            return tuple(sorted(self._counts.items()))
