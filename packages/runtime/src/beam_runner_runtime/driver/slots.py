"""Slots of the cluster and start permissions, shared by all jobs of a server. The engine decides which
job gets them.

Spark gives a free slot to the job with the fewest tasks. But a lane occupies its slot for many
bundles. Therefore, a job must release a slot if all slots are in use and another job waits.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from beam_runner_engine.dispatch.admission import JobAdmission
from beam_runner_engine.dispatch.sharing import SlotSharing

from beam_runner_runtime.tuning import TUNING


class ClusterSlots:
    """Slots shared by all jobs of a server. Each job uses them through `JobSlots`.

    Args:
        total: number of slots; None if unknown.
        cores: function that returns the current number of cores, or None if the number never
            changes.

    Attributes:
        lock: lock that protects the other attributes.
        wakes: callbacks for jobs that can ask again for permission to start, by job id.
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
    """Access of one job to the slots of the cluster. Any thread can call the methods."""

    def __init__(self, slots: ClusterSlots, job_id: str) -> None:
        self._slots = slots
        self._job_id = job_id

    def try_start_job(self, wake: Callable[[], None]) -> bool:
        """Returns whether the job may start now. If not, the job must ask again.

        Args:
            wake: callback after the end of another job, when a new request is worthwhile; spurious
                calls are possible.
        """
        with self._slots.lock:
            may_begin = self._slots.turns.try_start_job(self._job_id, time.monotonic())
            if not may_begin:
                self._slots.wakes[self._job_id] = wake
            return may_begin

    def started(self, lane: int) -> None:
        """Records that the job requested a slot for a lane."""
        with self._slots.lock:
            self._slots.places.record_request(self._job_id, lane, time.monotonic())

    def opened(self, lane: int) -> None:
        """Records that a lane of the job has got its slot."""
        with self._slots.lock:
            self._slots.places.record_slot(self._job_id, lane)

    def ended(self, lane: int) -> None:
        """Records that a lane has released its slot or will never get a slot. Repeated calls have no effect."""
        with self._slots.lock:
            self._slots.places.remove_slot(self._job_id, lane)

    def record_released_slot(self) -> None:
        """Records that a lane of this job is about to release its slot for another job."""
        with self._slots.lock:
            self._slots.places.record_release(self._job_id, time.monotonic())

    def release_all_slots(self) -> None:
        """Releases all slots of an ended job, and wakes jobs that can start now."""
        slots = self._slots
        with slots.lock:
            slots.places.remove_job(self._job_id)
            slots.turns.remove_job(self._job_id)
            slots.wakes.pop(self._job_id, None)
            wakes = [slots.wakes[job] for job in slots.turns.list_startable_jobs(time.monotonic())]
        for wake in wakes:
            wake()

    @property
    def owes_slot(self) -> bool:
        """Whether this job must release a slot for another job."""
        with self._slots.lock:
            return self._slots.places.owes_slot(self._job_id, time.monotonic())

    @property
    def can_request_lanes(self) -> bool:
        """Whether the job may request more lanes (Spark tasks that run bundles); see `SlotSharing.can_request_slot`."""
        with self._slots.lock:
            return self._slots.places.can_request_slot(self._job_id)

    @property
    def free_slots(self) -> float:
        """Number of slots that no job uses or has requested."""
        with self._slots.lock:
            return self._slots.total - self._slots.places.taken_slot_count

    @property
    def cores(self) -> int | None:
        """Current number of cores in the cluster; None if the number never changes."""
        return self._slots.cores()
