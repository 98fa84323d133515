"""Estimates of a job's processing rate and remaining time, from successive samples of its progress."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from beam_runner_jobservices.figures.step_metrics import StageFigures
    from beam_runner_model.observation import ObservedBundle

_WINDOW_SECONDS = 10.0
_LEAST_SECONDS = 2.0
"""Minimum time (s) between two samples from which a rate is computed."""
_LEAST_FRACTION = 0.02
"""Minimum finished fraction of a bundle from which the bundle's duration is estimated."""


@attrs.frozen
class _ProgressSample:
    """Sample of a job's progress at one time: number of elements, and waiting bytes by stage."""

    time: float
    elements: int
    backlogs: dict[str, int]


class ProgressEstimates:
    """Estimator of rate and remaining time, from the samples of the last 10 s.

    Args:
        clock: returns a time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looks: deque[_ProgressSample] = deque()

    def record_sample(self, elements: int, stages: Collection[StageFigures]) -> None:
        """Records a sample of the job's progress."""
        now = self._clock()
        backlogs = {one.id: one.backlog_bytes or 0 for one in stages}
        self._looks.append(_ProgressSample(now, elements, backlogs))
        while now - self._looks[0].time > _WINDOW_SECONDS and len(self._looks) > 2:
            self._looks.popleft()

    @property
    def elements_per_second(self) -> float | None:
        """The current rate of elements in all PCollections; None if unknown."""
        seconds = self._get_window_seconds()
        if seconds is None:
            return None
        return max(0.0, (self._looks[-1].elements - self._looks[0].elements) / seconds)

    def estimate_seconds_left(
        self, stages: Collection[StageFigures], bundles: Sequence[ObservedBundle]
    ) -> float | None:
        """Returns the remaining time of a bounded job; None if unknown.

        The time is unknown if a stage hasn't got its input yet, or if the progress of a bundle isn't
        known.
        """
        left = [
            self._estimate_stage(stage, [one for one in bundles if one.stage == stage.id])
            for stage in stages
            if not stage.is_finished
        ]
        known = [one for one in left if one is not None]
        return max(known) if known and len(known) == len(left) else None

    def _estimate_stage(
        self, stage: StageFigures, bundles: Sequence[ObservedBundle]
    ) -> float | None:
        if not bundles or any(one.fraction < _LEAST_FRACTION for one in bundles):
            return None
        totals = [one.seconds / one.fraction for one in bundles]
        running = max(
            total * (1 - one.fraction) for total, one in zip(totals, bundles, strict=True)
        )
        waiting = max(0, (stage.open_bundles or 0) - len(bundles))
        queued = waiting * sum(totals) / len(totals) / len(bundles)
        unassigned = self._estimate_backlog(stage)
        return None if unassigned is None else running + queued + unassigned

    def _estimate_backlog(self, stage: StageFigures) -> float | None:
        """Returns the seconds until all waiting input of a stage is in bundles; None if unknown."""
        backlog = stage.backlog_bytes or 0
        if not backlog:
            return 0.0
        seconds = self._get_window_seconds()
        taken = self._looks[0].backlogs.get(stage.id, 0) - backlog if seconds else 0
        return backlog * seconds / taken if seconds and taken > 0 else None

    def _get_window_seconds(self) -> float | None:
        if len(self._looks) < 2:
            return None
        seconds = self._looks[-1].time - self._looks[0].time
        return seconds if seconds >= _LEAST_SECONDS else None


def describe_estimates(rate: float | None, seconds_left: float | None) -> str:
    """Returns the end of a status line, such as ``, 1,200/s, about 3 min 20 s left``; empty if both are unknown."""
    from beam_runner_jobservices.figures.texts import format_count, format_duration

    parts = [] if rate is None or rate < 1 else [f"{format_count(round(rate))}/s"]
    if seconds_left is not None:
        parts.append(f"about {format_duration(max(1, round(seconds_left)))} left")
    return "".join(f", {one}" for one in parts)
