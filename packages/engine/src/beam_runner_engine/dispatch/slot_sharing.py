"""Sharing of the cluster's slots among jobs: a job releases a slot to a job that has no slots or at
least two fewer.

Jobs keep slots across bundles. Without sharing, a new job would never get a slot if all slots are
in use.
"""

from __future__ import annotations


class SlotSharing:
    """Registry of the slots of all jobs, which decides which job must release a slot.

    Times are seconds on any monotonic clock. No job must release a slot until another job has
    waited for `patience` seconds. Each slot has a number that is unique in its job.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._waiting: dict[tuple[str, int], float] = {}
        self._held: dict[str, set[int]] = {}
        self._gave: dict[str, float] = {}

    @property
    def taken_slot_count(self) -> int:
        """Number of slots that jobs have or wait for."""
        return len(self._waiting) + sum(map(len, self._held.values()))

    def record_request(self, job: str, place: int, now: float) -> None:
        """Records that a job waits for a slot."""
        self._waiting[job, place] = now

    def record_slot(self, job: str, place: int) -> None:
        """Records that the cluster gave a slot to a job."""
        self._waiting.pop((job, place), None)
        self._held.setdefault(job, set()).add(place)

    def remove_slot(self, job: str, place: int) -> None:
        """Records that a job lost the slot, or will never get the slot. Repeated calls have no
        effect.
        """
        self._waiting.pop((job, place), None)
        self._held.get(job, set()).discard(place)

    def record_release(self, job: str, now: float) -> None:
        """Records that a job is releasing one of its slots to other jobs."""
        self._gave[job] = now

    def remove_job(self, job: str) -> None:
        """Removes a job that has ended."""
        self._held.pop(job, None)
        self._gave.pop(job, None)
        for waiting in [one for one in self._waiting if one[0] == job]:
            del self._waiting[waiting]

    def must_release_slot(self, job: str, now: float) -> bool:
        """Returns whether the job must release one of its slots to another job."""
        mine, limit = self._count_slots(job), now - self._patience
        return any(
            other != job and since < limit and self._has_too_few_slots(other, mine)
            for (other, _), since in self._waiting.items()
        )

    def can_request_slot(self, job: str) -> bool:
        """Returns whether the job can request a slot.

        A job that released a slot must wait for the jobs that were waiting at that time. The server
        doesn't know the order of requests, and could give the slot to either job.
        """
        mine, gave = self._count_slots(job), self._gave.get(job, float("-inf"))
        return not any(
            other != job and since <= gave and self._has_fewer_slots(other, mine)
            for (other, _), since in self._waiting.items()
        )

    def _has_fewer_slots(self, job: str, others: int) -> bool:
        held = self._count_slots(job)
        return held == 0 or held < others

    def _has_too_few_slots(self, job: str, others: int) -> bool:
        held = self._count_slots(job)
        return others > held + 1 or (others > 0 and held == 0)

    def _count_slots(self, job: str) -> int:
        return len(self._held.get(job, ()))
