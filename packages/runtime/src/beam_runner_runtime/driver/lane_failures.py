"""Lanes that could not be had, one after the other: when the next one is started, and when the job gives up."""

from __future__ import annotations

from beam_runner_engine.scheduler.specs import Pauses
from beam_runner_storage.unavailable import NeighbourUnavailable

from beam_runner_runtime.driver.patient_journal import Outage
from beam_runner_runtime.tuning import TUNING

_PAUSES = Pauses(1_000, 60_000)
_NEIGHBOUR = "the placement of worker processes"


class LaneFailures:
    """Counts the lanes that failed since the last one that opened. Times are those of ``time.monotonic``.

    Args:
        is_patient: whether the job waits without limit, with growing pauses; else a job gives up soon,
            and tries again at once until then.

    Attributes:
        outage: the outage that the failures come to; None if the last lane opened.
    """

    def __init__(self, is_patient: bool) -> None:
        self._is_patient = is_patient
        self._count = 0
        self.outage: Outage | None = None

    def add(self, error: str, now: float) -> float | None:
        """Counts a failure; returns the seconds until lanes may start again, None if the job gives up."""
        self._count += 1
        if not self._is_patient:
            return None if self._count >= TUNING.lane_failures else 0.0
        pause = _PAUSES.after(self._count) / 1000
        since = now if self.outage is None else self.outage.since
        self.outage = Outage(NeighbourUnavailable(_NEIGHBOUR, error), since, now + pause)
        return pause

    def end(self) -> None:
        """A lane has opened."""
        self._count, self.outage = 0, None
