"""Snapshot of a job: its state, metrics, messages and history at one time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs
from beam_runner_jobservices.error_log import FailureGroup
from beam_runner_jobservices.figures.estimates import ProgressFigures
from beam_runner_jobservices.figures.step_metrics import JobFigures
from beam_runner_jobservices.figures.step_tree import StepTree
from beam_runner_jobservices.figures.texts import is_max_timestamp, is_min_timestamp
from beam_runner_jobservices.job_log import JobLogLine
from beam_runner_model.jobs import JobInfo, JobMessage, JobState, StateEvent
from beam_runner_model.observation import Execution, SeriesPoint
from beam_runner_model.successions import Succession

from .masking import get_option
from .threads import WorkerThread

_RATE_SECONDS = 10.0
_LEAST_RATE_SECONDS = 0.8


@attrs.frozen
class MetricSample:
    """Metrics at a time (wall-clock seconds)."""

    time: float
    figures: JobFigures


@attrs.frozen
class JobSnapshot:
    """State of a job at the time `taken` (wall-clock seconds).

    Attributes:
        events: the states of the job, oldest first.
        messages: the stored messages, oldest first.
        samples: earlier metrics, oldest first, and the current metrics last.
        execution: the running bundles and waits of the job; None if the server doesn't report them,
            or nothing runs.
        history: the history of stages before the page was opened, oldest first.
        failures: the errors of the job by type, step and line, the latest last.
        threads: the threads in user code, while a bundle makes no progress.
        warnings: the number of warnings that don't report a failed attempt.
        last_warning: the latest of these warnings.
        user: the user who submitted the job; empty if unknown.
        succession: the jobs before and after the job.
        progress: the progress of the job; None if the job has finished.
        away: the reason for which the server doesn't answer now; empty if the server answers. If it
            is set, the other attributes are older than `taken`.
    """

    job: JobInfo
    tree: StepTree
    events: tuple[StateEvent, ...]
    messages: tuple[JobMessage, ...]
    figures: JobFigures
    samples: tuple[MetricSample, ...]
    taken: float
    execution: Execution | None = None
    away: str = ""
    failures: tuple[FailureGroup, ...] = ()
    history: Mapping[str, tuple[SeriesPoint, ...]] = attrs.field(factory=dict)
    threads: tuple[WorkerThread, ...] = ()
    warnings: int = 0
    last_warning: JobLogLine | None = None
    user: str = ""
    succession: Succession = attrs.field(factory=Succession)
    progress: ProgressFigures | None = None

    @property
    def state(self) -> JobState:
        return self.job.state

    @property
    def streaming(self) -> bool:
        """Whether the pipeline has an unbounded PCollection, or was submitted as a stream."""
        collections = self.tree.pipeline.pcollections.values()
        return bool(get_option(self.job.options, "streaming")) or any(
            not one.bounded for one in collections
        )

    @property
    def started(self) -> float | None:
        """Time of the job's start or submission; None if the server doesn't report the time."""
        times = {event.state: event.time for event in reversed(self.events)}
        return times.get(JobState.RUNNING) or next(iter(times.values()), None) if times else None

    @property
    def ended(self) -> float | None:
        """Time at which the job finished; None if the job hasn't finished."""
        return next((event.time for event in self.events if event.state.is_terminal), None)

    @property
    def seconds(self) -> float | None:
        """The job's run time in seconds."""
        if self.started is None:
            return None
        return (self.ended or self.taken) - self.started

    @property
    def earlier_lags(self) -> list[tuple[float, float]]:
        """Times and lags in seconds of the latest stage, from before the page was opened."""
        found: dict[float, float] = {}
        for points in self.history.values():
            for point in points:
                if (lag := compute_point_lag(point)) is not None:
                    found[point[0]] = max(lag, found.get(point[0], 0.0))
        return sorted(found.items())

    def compute_rate(self, count: Callable[[JobFigures], int | None]) -> float | None:
        """Returns the increase of a metric per second, over about the last 10 s."""
        if self.state.is_terminal or not self.samples:
            return None
        last = self.samples[-1]
        before = next((s for s in self.samples if s.time >= last.time - _RATE_SECONDS), last)
        new, old = count(last.figures), count(before.figures)
        if new is None or last.time - before.time < _LEAST_RATE_SECONDS:
            return None
        return max(0.0, (new - (old or 0)) / (last.time - before.time))


def count_output_elements(name: str) -> Callable[[JobFigures], int | None]:
    """Returns a function of metrics for `Snapshot.rate`: the number of output elements of the step `name`."""
    return lambda figures: figures.steps[name].elements_out if name in figures.steps else None


def compute_point_lag(point: SeriesPoint) -> float | None:
    """Returns the lag in seconds at a point of a stage's history; None at the bounds of event time."""
    mark = point[1]
    if is_min_timestamp(mark) or is_max_timestamp(mark):
        return None
    return max(0.0, point[0] - mark / 1000)
