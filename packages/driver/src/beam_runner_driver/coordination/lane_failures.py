"""Consecutive failures to start a lane (a worker process that runs bundles): their number sets the
pause before the next start, or fails the job.
"""

from __future__ import annotations

from beam_runner_engine.scheduler.specs import Pauses
from beam_runner_runtime.tuning import TUNING
from beam_runner_storage.unavailable import ExternalSystemUnavailable

from beam_runner_driver.ledger.retrying_journal import Outage

_PAUSES = Pauses(1_000, 60_000)
_NEIGHBOUR = "the placement of worker processes"


class LaneFailures:
    """Counter of lane failures since the last successful start. Times are from ``time.monotonic``.

    Args:
        is_patient: whether the job retries without limit, with growing pauses. Otherwise, the job
            retries without pauses, and fails after `TUNING.lane_failures` failures.

    Attributes:
        outage: current outage of the system that starts lanes, such as Spark; None after a
            successful start.
    """

    def __init__(self, is_patient: bool) -> None:
        self._is_patient = is_patient
        self._count = 0
        self.outage: Outage | None = None

    def count_failure(self, error: str, now: float) -> float | None:
        """Counts a failure. Returns the seconds until the next start, or None if the job must fail."""
        self._count += 1
        if not self._is_patient:
            return None if self._count >= TUNING.lane_failures else 0.0
        pause = _PAUSES.compute_retry_pause(self._count) / 1000
        since = now if self.outage is None else self.outage.since
        self.outage = Outage(ExternalSystemUnavailable(_NEIGHBOUR, error), since, now + pause)
        return pause

    def reset_count(self) -> None:
        """Resets the count after a successful start."""
        self._count, self.outage = 0, None
