"""OpenTelemetry metrics of jobs, from the latest poll of each job."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import attrs
from beam_runner_jobservices.figures.step_metrics import JobFigures, StageFigures
from beam_runner_jobservices.metric_values import Distribution, LatestValue, MetricValue
from beam_runner_model.jobs import JobState
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from beam_runner_server.observers.observed_job import ObservedJob

_RETAINED_SECONDS = 300.0
"""Seconds for which the last values of an ended job are exported, so that the metrics of short jobs
are exported, too.
"""

_STAGE_GAUGES = {
    "backlog": ("By", "Data that waits for the stage, also in open bundles.", "waiting_bytes"),
    "open_bundles": ("{bundle}", "Running and waiting bundles.", "open_bundles"),
    "paused_bundles": ("{bundle}", "Failed bundles that wait for a retry.", "paused"),
    "commit_lag": ("ms", "Age of the oldest open bundle.", "commit_lag"),
    "input_watermark": ("ms", "Input watermark, since the epoch.", "input_watermark"),
    "output_watermark": ("ms", "Output watermark, since the epoch.", "output_watermark"),
}
_STAGE_COUNTERS = {
    "committed_bundles": ("{bundle}", "Committed bundles.", "committed"),
    "failed_bundles": ("{bundle}", "Failed attempts at bundles.", "failed"),
    "retried_bundles": ("{bundle}", "Bundles that started again after a failure.", "retried"),
    "dropped_values": ("{value}", "Values that arrived too late.", "dropped"),
}
_Attributes = dict[str, str]


@attrs.frozen
class _JobSample:
    """Metrics of a job at the latest poll."""

    attributes: _Attributes
    state: JobState
    figures: JobFigures
    at: float


class JobInstruments:
    """OpenTelemetry instruments, whose callbacks return values from the latest poll of each job. Thread-safe."""

    def __init__(self, meter: Meter) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, _JobSample] = {}
        self._ends: Counter[JobState] = Counter()
        gauge, counter = meter.create_observable_gauge, meter.create_observable_counter
        gauge("beam.jobs", [self._count_jobs], "{job}", "Jobs by state.")
        for name, (unit, text, field) in _STAGE_GAUGES.items():
            gauge(f"beam.stage.{name}", [self._observe_stages(field)], unit, text)
        for name, (unit, text, field) in _STAGE_COUNTERS.items():
            counter(f"beam.stage.{name}", [self._observe_stages(field)], unit, text)
        counter(
            "beam.step.elements",
            [self._observe_elements],
            "{element}",
            "Output elements of the step.",
        )
        gauge("beam.user.metric", [self._observe_user_values], "1", "Counters and gauges of users.")
        for part in ("count", "sum", "min", "max"):
            gauge(
                f"beam.user.distribution.{part}",
                [self._observe_distributions(part)],
                "1",
                f"The {part} of a distribution of users.",
            )

    def record_job(self, job: ObservedJob) -> None:
        """Records the metrics of a job."""
        attributes = {"beam.job.id": job.job_id, "beam.job.name": job.name}
        now = time.monotonic()
        seen = _JobSample(attributes, job.state, job.figures, now)
        with self._lock:
            self._seen[job.job_id] = seen
            if job.state.is_terminal:
                self._ends[job.state] += 1
            for old, one in list(self._seen.items()):
                if one.state.is_terminal and now - one.at > _RETAINED_SECONDS:
                    del self._seen[old]

    def _list_job_samples(self) -> tuple[_JobSample, ...]:
        with self._lock:
            return tuple(self._seen.values())

    def _count_jobs(self, options: CallbackOptions) -> Iterator[Observation]:
        with self._lock:
            counts = Counter(self._ends)
            counts.update(one.state for one in self._seen.values() if not one.state.is_terminal)
        for state, count in counts.items():
            yield Observation(count, {"beam.job.state": state.name})

    def _observe_stages(self, field: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe_stage_metric(options: CallbackOptions) -> Iterator[Observation]:
            for seen in self._list_job_samples():
                for stage in seen.figures.stages:
                    value = getattr(stage, field)
                    if value is not None:
                        yield Observation(value, seen.attributes | _describe_stage(stage))

        return observe_stage_metric

    def _observe_elements(self, options: CallbackOptions) -> Iterator[Observation]:
        for seen in self._list_job_samples():
            for step, figures in seen.figures.steps.items():
                if figures.elements_out is not None:
                    yield Observation(figures.elements_out, {**seen.attributes, "beam.step": step})

    def _observe_user_values(self, options: CallbackOptions) -> Iterator[Observation]:
        for value, attributes in self._iterate_user_metrics():
            if isinstance(value, LatestValue):
                value = value.value
            if isinstance(value, int | float):
                yield Observation(value, attributes)

    def _observe_distributions(
        self, part: str
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe_distribution(options: CallbackOptions) -> Iterator[Observation]:
            for value, attributes in self._iterate_user_metrics():
                if isinstance(value, Distribution):
                    yield Observation(getattr(value, part), attributes)

        return observe_distribution

    def _iterate_user_metrics(self) -> Iterator[tuple[MetricValue | None, _Attributes]]:
        for seen in self._list_job_samples():
            for metric in seen.figures.user:
                value = metric.committed if metric.committed is not None else metric.attempted
                yield (
                    value,
                    {
                        **seen.attributes,
                        "beam.step": metric.step,
                        "beam.metric.namespace": metric.namespace,
                        "beam.metric.name": metric.name,
                    },
                )


def _describe_stage(stage: StageFigures) -> _Attributes:
    return {"beam.stage.id": stage.id, "beam.stage.name": stage.name}
