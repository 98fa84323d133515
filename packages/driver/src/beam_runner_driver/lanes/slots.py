"""Slots of the cluster, and permissions for jobs to start, shared by all jobs of a server. The
engine decides which job gets them.

Spark gives a free slot to the job with the fewest tasks. But a lane occupies its slot for many
bundles. Therefore, a job must release a slot if all slots are in use and another job waits.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from beam_runner_engine.dispatch.admission import JobAdmission
from beam_runner_engine.dispatch.slot_sharing import SlotSharing
from beam_runner_runtime.tuning import TUNING

from beam_runner_driver.lanes.user_cores import UserCoreShares


class ClusterSlots:
    """Slots shared by all jobs of a server. Each job uses them through `JobSlots`.

    Args:
        total: number of slots; None if unknown.
        cores: function that returns the current number of cores; None if the number never changes.
        users: quotas of cores.

    Attributes:
        lock: lock that protects the other attributes.
        wakes: callbacks that tell a waiting job to ask again for permission to start, by job id.
    """

    def __init__(
        self,
        total: int | None = None,
        cores: Callable[[], int | None] = lambda: None,
        users: UserCoreShares | None = None,
    ) -> None:
        self.users = users or UserCoreShares()
        self.total = math.inf if total is None else total
        self.cores = cores
        self.lock = threading.Lock()
        self.places = SlotSharing(TUNING.slot_patience_seconds)
        self.turns = JobAdmission(self.total, TUNING.job_turn_seconds)
        self.wakes: dict[str, Callable[[], None]] = {}


class JobSlots:
    """Access of one job to the slots of the cluster. Any thread can call the methods.

    Args:
        slots: slots that all jobs share.
        job_id: id of the job.
        user: name of the job's user; empty without users.
    """

    def __init__(self, slots: ClusterSlots, job_id: str, user: str = "") -> None:
        self._slots = slots
        self._job_id = job_id
        self._user = user
        slots.users.add_job(user)

    def try_start_job(self, wake: Callable[[], None]) -> bool:
        """Starts the job and returns True if a job may start now. Otherwise returns False, and the
        job must ask again.

        Args:
            wake: function that is called after another job has ended, so that this job can ask
                again. Unnecessary calls are possible.
        """
        with self._slots.lock:
            may_begin = self._slots.turns.try_start_job(self._job_id, time.monotonic())
            if not may_begin:
                self._slots.wakes[self._job_id] = wake
            return may_begin

    def record_requested_slot(self, lane: int) -> None:
        """Records that the job requested a cluster slot for a lane (a worker process)."""
        with self._slots.lock:
            self._slots.places.record_request(self._job_id, lane, time.monotonic())

    def record_received_slot(self, lane: int) -> None:
        """Records that a lane of the job has received one of the cluster's slots."""
        with self._slots.lock:
            self._slots.places.record_slot(self._job_id, lane)

    def count_released_slot(self, lane: int) -> None:
        """Records that a lane has released its slot or will never get a slot. Later calls for the
        same lane have no effect.
        """
        with self._slots.lock:
            self._slots.places.remove_slot(self._job_id, lane)

    def record_released_slot(self) -> None:
        """Records that this job has asked one of its lanes to release the lane's slot for another
        job.
        """
        with self._slots.lock:
            self._slots.places.record_release(self._job_id, time.monotonic())

    def release_all_slots_of_job(self) -> None:
        """Releases all slots of an ended job, and wakes jobs that can start now."""
        slots = self._slots
        slots.users.remove_job(self._user)
        with slots.lock:
            slots.places.remove_job(self._job_id)
            slots.turns.remove_job(self._job_id)
            slots.wakes.pop(self._job_id, None)
            wakes = [slots.wakes[job] for job in slots.turns.list_startable_jobs(time.monotonic())]
        for wake in wakes:
            wake()

    @property
    def must_release_slot(self) -> bool:
        """Whether this job must release a slot for another job."""
        with self._slots.lock:
            return self._slots.places.must_release_slot(self._job_id, time.monotonic())

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
        """Current number of cores that the job can use; None if the number never changes."""
        cores, share = self._slots.cores(), self._slots.users.compute_share(self._user)
        return min((one for one in (cores, share) if one is not None), default=None)
