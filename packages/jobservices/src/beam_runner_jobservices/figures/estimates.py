"""Progress of a running job from successive samples of its metrics: rates, remaining time, lag, and its
trend.

The web pages and the client's progress line use the same figures. A figure that can't be computed is
None.
"""

from __future__ import annotations

import enum
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

import attrs
from beam_runner_model.observation import Execution, ObservedBundle

from beam_runner_jobservices.figures.costs import compute_cpu_seconds
from beam_runner_jobservices.figures.step_metrics import JobFigures, StageFigures, StepFigures
from beam_runner_jobservices.figures.step_tree import StepTree
from beam_runner_jobservices.figures.texts import is_max_timestamp, is_min_timestamp

_WINDOW_SECONDS = 10.0
_LONG_WINDOW_SECONDS = 60.0
_LEAST_SECONDS = 2.0
"""Minimum time (s) between two samples from which a rate is computed."""
_LEAST_TREND_SECONDS = 20.0
_LEAST_FRACTION = 0.02
"""Minimum finished fraction of a bundle from which the bundle's duration is estimated."""
_STEADY = 0.2
"""Growth of the lag, in seconds per second, below which the lag counts as steady."""


class LagTrend(enum.StrEnum):
    """Change of a stream's lag over the last minute."""

    GROWING = "growing"
    SHRINKING = "shrinking"
    STEADY = "steady"


@attrs.frozen
class ProgressFigures:
    """Progress of a job. Rates are elements per second.

    Attributes:
        stages: the number of stages; 0 if the server doesn't report stages.
        finished_stages: the number of stages that have processed all of their input.
        elements: the number of elements in all PCollections.
        elements_per_second: the rate of these elements.
        share: the elapsed part of the estimated total time, from 0 to 1. If stages wait for their
            start, only of the time since the first unfinished stage started.
        seconds_left: the estimated remaining time of the stages that have started.
        later_stages: the number of stages that run no bundle yet, and so have no estimate.
        slots: the number of bundles that can run at once.
        busy_slots: the number of slots that run a bundle.
        arrivals_per_second: the rate of the output of a stream's sources.
        results_per_second: the rate of the input of the last steps of a stream.
        waiting_elements: the number of elements that wait for a stage that has started, without the
            sources.
        waiting_bytes: the size of these elements.
        lag_seconds: the time by which a stream's latest stage is behind in event time.
        lag_trend: the change of this lag.
        cores: the mean number of cores that bundles used in the last 10 s; None if a stage's CPU time
            is unknown.
    """

    stages: int = 0
    finished_stages: int = 0
    elements: int = 0
    elements_per_second: float | None = None
    share: float | None = None
    seconds_left: float | None = None
    later_stages: int = 0
    slots: int | None = None
    busy_slots: int | None = None
    arrivals_per_second: float | None = None
    results_per_second: float | None = None
    waiting_elements: int | None = None
    waiting_bytes: int | None = None
    lag_seconds: float | None = None
    lag_trend: LagTrend | None = None
    cores: float | None = None


@attrs.frozen
class _ProgressSample:
    """Sample of a job's progress at one time (s)."""

    time: float
    elements: int
    pending: dict[str, int]
    arrived: int | None
    emitted: int | None
    lag: float | None
    cpu_seconds: float | None


class ProgressEstimates:
    """Estimator of a job's progress, from the samples of the last minute.

    Args:
        clock: returns a time in seconds.
        wall_clock: returns the wall-clock time in seconds since the epoch.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._samples: deque[_ProgressSample] = deque()

    def record_sample(self, figures: JobFigures, tree: StepTree) -> None:
        """Records a sample of the job's metrics."""
        now = self._clock()
        arrived = _sum_counts(_get_step_figures(figures, key).elements_out for key in tree.sources)
        emitted = _sum_counts(_get_step_figures(figures, key).elements_in for key in tree.sinks)
        self._samples.append(
            _ProgressSample(
                now,
                sum(figures.counts.values()),
                {one.id: _count_pending_bytes(one) for one in figures.stages},
                arrived,
                # A step without elements has no count.
                emitted if arrived is None else emitted or 0,
                compute_lag(figures.stages, self._wall_clock()),
                compute_cpu_seconds(figures.stages),
            )
        )
        while now - self._samples[0].time > _LONG_WINDOW_SECONDS and len(self._samples) > 2:
            self._samples.popleft()

    def estimate_progress(
        self,
        figures: JobFigures,
        tree: StepTree,
        execution: Execution | None = None,
        *,
        seconds: float | None = None,
        earlier_lags: Sequence[tuple[float, float]] = (),
    ) -> ProgressFigures:
        """Returns the progress of a job, of which `figures` is the latest recorded sample.

        Args:
            figures: the metrics of the job.
            tree: the steps of the job.
            execution: the running bundles of the job; None if the server doesn't report them.
            seconds: the run time of the job; None if unknown.
            earlier_lags: wall-clock times and lags in seconds from before the first sample.
        """
        stages = figures.stages
        later = [one for one in stages if _waits_for_input(one)]
        bundles = () if execution is None else execution.bundles
        is_stream = any(not one.bounded for one in tree.pipeline.pcollections.values())
        consumers = [
            one
            for one in stages
            if one not in later and not set(one.steps).intersection(tree.sources)
        ]
        left = self.estimate_seconds_left([one for one in stages if one not in later], bundles)
        return ProgressFigures(
            stages=len(stages),
            finished_stages=sum(one.is_finished for one in stages),
            elements=sum(figures.counts.values()),
            elements_per_second=self.elements_per_second,
            share=self._estimate_finished_share(stages, left, seconds, is_partial=bool(later)),
            seconds_left=left,
            later_stages=len(later),
            slots=(execution.slots or None) if execution is not None else None,
            busy_slots=execution.busy_slots if execution is not None and execution.slots else None,
            arrivals_per_second=self._compute_rate(lambda one: one.arrived) if is_stream else None,
            results_per_second=self._compute_rate(lambda one: one.emitted) if is_stream else None,
            waiting_elements=_sum_counts(one.pending_elements for one in consumers),
            waiting_bytes=_sum_counts(one.waiting_bytes for one in consumers),
            lag_seconds=self._samples[-1].lag if is_stream and self._samples else None,
            lag_trend=self._compute_lag_trend(earlier_lags) if is_stream else None,
            cores=self._compute_rate(lambda one: one.cpu_seconds),
        )

    @property
    def elements_per_second(self) -> float | None:
        """The current rate of elements in all PCollections; None if unknown."""
        return self._compute_rate(lambda one: one.elements)

    def estimate_seconds_left(
        self, stages: Collection[StageFigures], bundles: Sequence[ObservedBundle]
    ) -> float | None:
        """Returns the remaining time of stages; None if the time of an unfinished stage is unknown."""
        left = [
            self._estimate_stage_seconds(stage, [one for one in bundles if one.stage == stage.id])
            for stage in stages
            if not stage.is_finished
        ]
        known = [one for one in left if one is not None]
        return max(known) if known and len(known) == len(left) else None

    def _estimate_finished_share(
        self,
        stages: Collection[StageFigures],
        left: float | None,
        seconds: float | None,
        *,
        is_partial: bool,
    ) -> float | None:
        if left is None:
            return None
        if is_partial:
            began = [one.began for one in stages if one.began and not one.is_finished]
            seconds = self._wall_clock() - min(began) / 1000 if began else None
        return None if not seconds or seconds < 0 else seconds / (seconds + left)

    def _estimate_stage_seconds(
        self, stage: StageFigures, bundles: Sequence[ObservedBundle]
    ) -> float | None:
        """Returns the remaining time of a stage: the time that its running bundles need at their
        speed, or its unprocessed input divided by the rate at which it shrinks if bundles wait.
        """
        runs_all = not stage.backlog_bytes and (stage.open_bundles or 0) <= len(bundles)
        running, pending = (
            self._estimate_bundle_seconds(stage, bundles),
            self._estimate_pending_seconds(stage),
        )
        if running is None or pending is None:
            return running if pending is None else pending
        return running if runs_all else max(running, pending)

    def _estimate_pending_seconds(self, stage: StageFigures) -> float | None:
        oldest = self._find_oldest_sample(_WINDOW_SECONDS)
        if oldest is None or stage.pending_bytes is None:
            return None
        pending = _count_pending_bytes(stage)
        processed = oldest.pending.get(stage.id, 0) - pending
        seconds = self._samples[-1].time - oldest.time
        return pending * seconds / processed if pending and processed > 0 else None

    def _estimate_bundle_seconds(
        self, stage: StageFigures, bundles: Sequence[ObservedBundle]
    ) -> float | None:
        if not bundles or any(one.fraction < _LEAST_FRACTION for one in bundles):
            return None
        if stage.backlog_bytes:
            return None
        totals = [one.seconds / one.fraction for one in bundles]
        running = max(
            total * (1 - one.fraction) for total, one in zip(totals, bundles, strict=True)
        )
        waiting = max(0, (stage.open_bundles or 0) - len(bundles))
        return running + waiting * sum(totals) / len(totals) / len(bundles)

    def _compute_rate(self, read: Callable[[_ProgressSample], float | None]) -> float | None:
        oldest = self._find_oldest_sample(_WINDOW_SECONDS)
        if oldest is None:
            return None
        last, first = read(self._samples[-1]), read(oldest)
        if last is None:
            return None
        return max(0.0, (last - (first or 0)) / (self._samples[-1].time - oldest.time))

    def _compute_lag_trend(self, earlier: Sequence[tuple[float, float]]) -> LagTrend | None:
        """Returns the trend of the lag, from the largest lag in each half of the last minute, because
        a watermark that advances by windows makes the lag go up and down.
        """
        if not self._samples:
            return None
        offset = self._wall_clock() - self._clock()
        now = self._samples[-1].time
        points = [(at - offset, lag) for at, lag in earlier]
        points += [(one.time, one.lag) for one in self._samples if one.lag is not None]
        points = [point for point in points if now - point[0] <= _LONG_WINDOW_SECONDS]
        if not points or now - points[0][0] < _LEAST_TREND_SECONDS:
            return None
        middle = (points[0][0] + now) / 2
        before = [lag for at, lag in points if at < middle]
        after = [lag for at, lag in points if at >= middle]
        if not (before and after):
            return None
        growth = (max(after) - max(before)) / (now - middle)
        if abs(growth) < _STEADY:
            return LagTrend.STEADY
        return LagTrend.GROWING if growth > 0 else LagTrend.SHRINKING

    def _find_oldest_sample(self, seconds: float) -> _ProgressSample | None:
        """Returns the oldest sample of a window; None if the sample is too young for a rate."""
        if not self._samples:
            return None
        now = self._samples[-1].time
        oldest = next(one for one in self._samples if now - one.time <= seconds)
        return oldest if now - oldest.time >= _LEAST_SECONDS else None


def compute_lag(stages: Iterable[StageFigures], now: float) -> float | None:
    """Returns the time in seconds by which the latest stage is behind in event time, at wall-clock
    time `now`; None if no stage reports event time.
    """
    marks = [
        mark
        for one in stages
        if (mark := one.output_watermark) is not None
        and not is_min_timestamp(mark)
        and not is_max_timestamp(mark)
    ]
    return max(0.0, now - min(marks) / 1000) if marks else None


def _count_pending_bytes(stage: StageFigures) -> int:
    """Returns the amount of a stage's unprocessed input, in bytes, because grouped input has no count."""
    return stage.pending_bytes or 0


def _waits_for_input(stage: StageFigures) -> bool:
    """Returns whether a stage runs no bundle yet, because it waits for its input or the end of its input."""
    return not (stage.is_finished or stage.open_bundles or stage.paused)


def _get_step_figures(figures: JobFigures, key: str) -> StepFigures:
    return figures.steps.get(key, StepFigures())


def _sum_counts(counts: Iterable[int | None]) -> int | None:
    known = [one for one in counts if one is not None]
    return sum(known) if known else None
