"""Metrics of jobs in Prometheus' text format, in base units: seconds, bytes and counts.

The label of a job is `job_id`, because Prometheus sets the label `job` itself. Event times at the bounds
of time have no sample, because these bounds aren't times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import attrs
from beam_runner_jobservices.figures.step_metrics import StageFigures
from beam_runner_jobservices.figures.texts import is_max_timestamp, is_min_timestamp
from beam_runner_model.jobs import JobState

from beam_runner_web.html.job_view import JobView

from .process_metrics import render_process_metrics
from .user_metrics import render_user_metrics


@attrs.frozen
class _StageFamily:
    """Family of metrics with one sample for each stage; `read` returns None for no sample."""

    name: str
    kind: str
    help: str
    read: Callable[[StageFigures], float | None]

    @property
    def is_final(self) -> bool:
        """Whether the value has a meaning after the end of a job."""
        return self.kind == "counter" or self.name == "peak_memory_bytes"


def _convert_to_seconds(msecs: int | None) -> float | None:
    return None if msecs is None else msecs / 1000


def _convert_event_time(msecs: int | None) -> float | None:
    is_bound = is_min_timestamp(msecs) or is_max_timestamp(msecs)
    return None if is_bound else _convert_to_seconds(msecs)


_STAGE_FAMILIES = (
    _StageFamily(
        "backlog_bytes",
        "gauge",
        "Size of the stage's unprocessed input.",
        lambda stage: stage.waiting_bytes,
    ),
    _StageFamily(
        "backlog_elements",
        "gauge",
        "Number of elements of the stage's unprocessed input.",
        lambda stage: stage.pending_elements,
    ),
    _StageFamily(
        "open_bundles",
        "gauge",
        "Number of the stage's bundles that run or wait.",
        lambda stage: stage.open_bundles,
    ),
    _StageFamily(
        "paused_bundles",
        "gauge",
        "Number of failed bundles that wait for a retry.",
        lambda stage: stage.paused,
    ),
    _StageFamily(
        "input_watermark_timestamp_seconds",
        "gauge",
        "Input watermark of the stage.",
        lambda stage: _convert_event_time(stage.input_watermark),
    ),
    _StageFamily(
        "output_watermark_timestamp_seconds",
        "gauge",
        "Output watermark of the stage.",
        lambda stage: _convert_event_time(stage.output_watermark),
    ),
    _StageFamily(
        "commit_lag_seconds",
        "gauge",
        "Age of the oldest uncommitted bundle.",
        lambda stage: _convert_to_seconds(stage.commit_lag),
    ),
    _StageFamily(
        "slot_seconds_total",
        "counter",
        "Time for which the stage's bundles used a slot.",
        lambda stage: stage.slot_seconds,
    ),
    _StageFamily(
        "cpu_seconds_total",
        "counter",
        "CPU time of the threads that ran the stage's bundles.",
        lambda stage: stage.cpu_seconds,
    ),
    _StageFamily(
        "peak_memory_bytes",
        "gauge",
        "Largest peak memory of a process that ran the stage's bundles.",
        lambda stage: stage.peak_memory_bytes,
    ),
    _StageFamily(
        "bundles_total",
        "counter",
        "Number of the stage's committed bundles.",
        lambda stage: stage.committed,
    ),
    _StageFamily(
        "failed_attempts_total",
        "counter",
        "Number of failed attempts at bundles.",
        lambda stage: stage.failed,
    ),
    _StageFamily(
        "retried_bundles_total",
        "counter",
        "Number of retries of bundles.",
        lambda stage: stage.retried,
    ),
    _StageFamily(
        "dropped_values_total",
        "counter",
        "Number of values that were dropped as late.",
        lambda stage: stage.dropped,
    ),
    _StageFamily(
        "quarantined_elements_total",
        "counter",
        "Number of elements that always fail and went to quarantine.",
        lambda stage: stage.quarantined,
    ),
)


def render_prometheus_metrics(states: Iterable[JobState], views: Iterable[JobView]) -> str:
    """Returns the metrics of a server in Prometheus' text format.

    Args:
        states: the state of each job.
        views: the jobs whose steps, stages and metrics of user code are included.
    """
    counts, found = Counter(states), list(views)
    lines = [
        "# HELP beam_jobs Number of jobs on the server, by state.",
        "# TYPE beam_jobs gauge",
        *(f'beam_jobs{{state="{s.name.lower()}"}} {counts[s]}' for s in JobState),
        *_render_jobs(found),
        *_render_steps(found),
        *_render_stages(found),
        *render_user_metrics(found, _format_labels),
        *render_process_metrics(),
    ]
    return "\n".join(lines) + "\n"


def _render_jobs(views: list[JobView]) -> Iterator[str]:
    yield "# HELP beam_job_info Name and state of the job."
    yield "# TYPE beam_job_info gauge"
    for view in views:
        labels = _format_labels(job_id=view.id, name=view.name, state=view.state.name.lower())
        yield f"beam_job_info{labels} 1"


def _render_steps(views: list[JobView]) -> Iterator[str]:
    """Yields the metrics of steps without parts, so that a sum counts each element once."""
    yield "# HELP beam_step_elements_total Number of elements that the step emitted."
    yield "# TYPE beam_step_elements_total counter"
    for view in views:
        for key, figures in view.figures.steps.items():
            step = view.tree.steps[key]
            if figures.elements_out is not None and not step.children:
                labels = _format_labels(job_id=view.id, step=step.name)
                yield f"beam_step_elements_total{labels} {figures.elements_out}"


def _render_stages(views: list[JobView]) -> Iterator[str]:
    for family in _STAGE_FAMILIES:
        yield f"# HELP beam_stage_{family.name} {family.help}"
        yield f"# TYPE beam_stage_{family.name} {family.kind}"
        for view in views:
            if view.state.is_terminal and not family.is_final:
                continue
            for stage in view.figures.stages:
                if (value := family.read(stage)) is not None:
                    labels = _format_labels(job_id=view.id, stage=stage.id)
                    yield f"beam_stage_{family.name}{labels} {value}"


def _format_labels(**labels: str) -> str:
    shown = ",".join(
        f'{name}="' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        for name, value in labels.items()
    )
    return f"{{{shown}}}"
