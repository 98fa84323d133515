"""Who holds the cluster's slots: jobs that wait for their first lane get them from those with many."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from beam_spark_executor.driver.turns import Turns
from beam_spark_executor.tuning import TUNING


class Slots:
    """Counts the lanes of all jobs of a server. All methods may be called from any thread.

    Spark gives a free slot to the job that runs the least. But lanes are kept for bundle after
    bundle, so where all slots are taken somebody has to give one up: to a job that has none, or two
    fewer.

    Args:
        total: how many slots there are; None if that is not known.
        cores: how many cores there are now; None if that never changes.

    Attributes:
        turns: of jobs to begin, no more of them at once than there are slots.
    """

    def __init__(self, total: int | None = None, cores: Callable[[], int] | None = None) -> None:
        self.turns = Turns(math.inf if total is None else total)
        self._total = total
        self._cores = cores
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, int], float] = {}
        self._held: dict[str, set[int]] = {}

    def started(self, job_id: str, lane: int) -> None:
        """A lane was asked for."""
        with self._lock:
            self._waiting[job_id, lane] = time.monotonic()

    def opened(self, job_id: str, lane: int) -> None:
        """A lane has a slot."""
        with self._lock:
            self._waiting.pop((job_id, lane), None)
            self._held.setdefault(job_id, set()).add(lane)

    def ended(self, job_id: str, lane: int) -> None:
        """A lane has left, or will never come; it may be told more than once."""
        with self._lock:
            self._waiting.pop((job_id, lane), None)
            held = self._held.get(job_id, set())
            held.discard(lane)
            if not held:
                self._held.pop(job_id, None)

    def forget(self, job_id: str) -> None:
        """The job has ended."""
        with self._lock:
            self._held.pop(job_id, None)
            for waiting in [key for key in self._waiting if key[0] == job_id]:
                del self._waiting[waiting]

    def is_wanted(self, job_id: str) -> bool:
        """Whether the job should give up one of its lanes to another."""
        limit = time.monotonic() - TUNING.slot_patience_seconds
        with self._lock:
            mine = len(self._held.get(job_id, ()))
            return any(
                other != job_id and since < limit and self._has_too_few(other, mine)
                for (other, _), since in self._waiting.items()
            )

    def cores(self) -> int | None:
        """How many cores there are now; None if as many as ever."""
        return None if self._cores is None else self._cores()

    def spare(self) -> float:
        """How many slots nobody has or waits for."""
        if self._total is None:
            return math.inf
        with self._lock:
            return self._total - len(self._waiting) - sum(map(len, self._held.values()))

    def _has_too_few(self, job_id: str, others: int) -> bool:
        held = len(self._held.get(job_id, ()))
        return others > held + 1 or (others > 0 and held == 0)


class JobSlots:
    """The slots as one job sees them."""

    def __init__(self, slots: Slots, job_id: str) -> None:
        self._slots = slots
        self._job_id = job_id

    def take_turn(self, wake: Callable[[], None]) -> bool:
        """Whether the job may begin; see :meth:`Turns.take`."""
        return self._slots.turns.take(self._job_id, wake)

    def started(self, lane: int) -> None:
        """A lane was asked for."""
        self._slots.started(self._job_id, lane)

    def opened(self, lane: int) -> None:
        """A lane has a slot."""
        self._slots.opened(self._job_id, lane)

    def ended(self, lane: int) -> None:
        """A lane has left, or will never come; it may be told more than once."""
        self._slots.ended(self._job_id, lane)

    def forget(self) -> None:
        """The job has ended."""
        self._slots.forget(self._job_id)
        self._slots.turns.leave(self._job_id)

    @property
    def is_wanted(self) -> bool:
        """Whether another job should get one of the lanes' places."""
        return self._slots.is_wanted(self._job_id)

    @property
    def spare(self) -> float:
        """How many slots of the cluster no job has or waits for."""
        return self._slots.spare()

    @property
    def cores(self) -> int | None:
        """How many cores the cluster has now; None if as many as ever."""
        return self._slots.cores()
