"""The cluster's slots, and turns to begin, of all jobs of a server: whose they are the engine says.

Spark gives a free slot to the job that runs the least. But lanes are kept for bundle after bundle, so
where all slots are taken somebody has to give one up.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from beam_runner_engine.dispatch.sharing import SlotSharing
from beam_runner_engine.dispatch.turns import JobAdmission

from beam_runner_runtime.tuning import TUNING


class Slots:
    """What all jobs of a server share; each sees it as `JobSlots`.

    Args:
        total: how many slots there are; None if that is not known.
        cores: how many cores there are now; None if that never changes.

    Attributes:
        lock: held by whoever uses anything else here.
        wakes: what is to be called when it is worth asking again for a turn, by job.
    """

    def __init__(
        self, total: int | None = None, cores: Callable[[], int | None] = lambda: None
    ) -> None:
        self.total = math.inf if total is None else total
        self.cores = cores
        self.lock = threading.Lock()
        self.places = SlotSharing(TUNING.slot_patience_seconds)
        self.turns = JobAdmission(self.total, TUNING.job_turn_seconds)
        self.wakes: dict[str, Callable[[], None]] = {}


class JobSlots:
    """The slots as one job sees them. All methods may be called from any thread."""

    def __init__(self, slots: Slots, job_id: str) -> None:
        self._slots = slots
        self._job_id = job_id

    def take_turn(self, wake: Callable[[], None]) -> bool:
        """Whether the job may begin; one that may not is to ask again.

        Args:
            wake: called when the end of another job makes it worth asking; may be called in vain.
        """
        with self._slots.lock:
            may_begin = self._slots.turns.try_start(self._job_id, time.monotonic())
            if not may_begin:
                self._slots.wakes[self._job_id] = wake
            return may_begin

    def started(self, lane: int) -> None:
        """A lane was asked for."""
        with self._slots.lock:
            self._slots.places.record_request(self._job_id, lane, time.monotonic())

    def opened(self, lane: int) -> None:
        """A lane has a slot."""
        with self._slots.lock:
            self._slots.places.record_slot(self._job_id, lane)

    def ended(self, lane: int) -> None:
        """A lane has left, or will never come; it may be told more than once."""
        with self._slots.lock:
            self._slots.places.remove_slot(self._job_id, lane)

    def gave(self) -> None:
        """One of the lanes is to leave for another job."""
        with self._slots.lock:
            self._slots.places.record_release(self._job_id, time.monotonic())

    def forget(self) -> None:
        """The job has ended."""
        slots = self._slots
        with slots.lock:
            slots.places.forget(self._job_id)
            slots.turns.remove_job(self._job_id)
            slots.wakes.pop(self._job_id, None)
            wakes = [slots.wakes[job] for job in slots.turns.list_startable(time.monotonic())]
        for wake in wakes:
            wake()

    @property
    def is_wanted(self) -> bool:
        """Whether another job should get one of the lanes' places."""
        with self._slots.lock:
            return self._slots.places.owes_slot(self._job_id, time.monotonic())

    @property
    def may_ask(self) -> bool:
        """Whether the job may ask for more lanes; see :meth:`SlotSharing.can_request`."""
        with self._slots.lock:
            return self._slots.places.can_request(self._job_id)

    @property
    def spare(self) -> float:
        """How many slots of the cluster no job has or waits for."""
        with self._slots.lock:
            return self._slots.total - self._slots.places.taken

    @property
    def cores(self) -> int | None:
        """How many cores the cluster has now; None if as many as ever."""
        return self._slots.cores()
