"""What a worker process is doing, for its server: whether it is at work on what it was given."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from beam_runner_runtime.channel.messages import Doing

_FIRST = (Doing.BUNDLE, Doing.NEIGHBOUR, Doing.LOOP, Doing.ORDER)
"""Of several things at a time the first one of these counts."""


class Activity:
    """May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Doing] = Counter()

    @contextmanager
    def of(self, doing: Doing) -> Iterator[None]:
        """Notes that a thread does this, until the ``with`` block ends."""
        with self._lock:
            self._counts[doing] += 1
        try:
            yield
        finally:
            with self._lock:
                self._counts[doing] -= 1

    def now(self) -> Doing:
        """Returns what the process is doing."""
        with self._lock:
            return next((doing for doing in _FIRST if self._counts[doing]), Doing.IDLE)
