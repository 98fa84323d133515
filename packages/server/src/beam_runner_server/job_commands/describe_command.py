"""The command ``describe``: prints the state of a job, its stages, steps, waits and counters."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from beam_runner_server.job_commands.connecting import Command, print_json, print_lines
from beam_runner_server.job_commands.jobs_command import (
    compute_run_seconds,
    describe_times,
)
from beam_runner_server.job_commands.naming import add_job_argument, find_job

if TYPE_CHECKING:
    from beam_runner_jobservices.client import JobClient
    from beam_runner_jobservices.figures.step_metrics import JobFigures, StageFigures
    from beam_runner_jobservices.figures.step_tree import StepTree
    from beam_runner_model.jobs import JobInfo
    from beam_runner_model.observation import Execution, JobTimes

_Answer = TypeVar("_Answer")
_NOT_REPORTED = ("UNIMPLEMENTED", "FAILED_PRECONDITION", "NOT_FOUND")
"""gRPC status codes of a server that doesn't run the job, or doesn't support the call."""


@attrs.frozen
class _JobDescription:
    """State of a job, its stages and its steps, from one set of requests to the server."""

    job: JobInfo
    times: JobTimes | None
    tree: StepTree
    figures: JobFigures
    execution: Execution | None

    def is_finished(self, stage: StageFigures) -> bool:
        """Returns whether a stage has processed all of its input."""
        return stage.is_finished or self.job.state.name in ("DONE", "DRAINED")


def _run_command(client: JobClient, found: argparse.Namespace) -> int:
    described = _describe_job(client, find_job(client, found))
    if found.json:
        print_json(_convert_to_json_values(described))
    else:
        print_lines(_format_description(described))
    return 0


def _describe_job(client: JobClient, job: JobInfo) -> _JobDescription:
    from beam_runner_jobservices.client import read_times_by_job
    from beam_runner_jobservices.figures.step_metrics import compute_figures
    from beam_runner_jobservices.figures.step_tree import StepTree
    from beam_runner_jobservices.wire.descriptions import describe_pipeline
    from beam_runner_model.jobs import JobMetrics

    tree = StepTree(describe_pipeline(client.get_pipeline(job.job_id)))
    execution = _call_if_reported(client.get_execution, job)
    waits = execution.waits if execution else ()
    metrics = _call_if_reported(client.get_metrics, job) or JobMetrics()
    figures = compute_figures(metrics, tree, waits)
    times = read_times_by_job(client).get(job.job_id)
    return _JobDescription(job, times, tree, figures, execution)


def _call_if_reported(call: Callable[[str], _Answer], job: JobInfo) -> _Answer | None:
    """Calls the server about a job, and returns the answer; None if the server doesn't run the job
    or doesn't support the call.
    """
    from beam_runner_jobservices.errors import JobApiError

    try:
        return call(job.job_id)
    except JobApiError as error:
        if error.code not in _NOT_REPORTED:
            raise
        return None


def _convert_to_json_values(described: _JobDescription) -> dict[str, Any]:
    """Returns the description as values that JSON supports."""
    from beam_runner_model.rendering import render_record

    figures, tree, execution = described.figures, described.tree, described.execution
    return {
        **describe_times(described.job, described.times),
        "stages": [
            {
                "id": one.id,
                "name": one.name,
                "finished": described.is_finished(one),
                "open_bundles": one.open_bundles,
                "committed_bundles": one.committed,
                "failed_attempts": one.failed,
                "backlog_bytes": one.waiting_bytes,
                "output_watermark_ms": one.output_watermark,
            }
            for one in figures.stages
        ],
        "steps": [
            {"name": tree.steps[key].name, **attrs.asdict(one)}
            for key, one in figures.steps.items()
        ],
        "counters": [
            {
                "step": tree.get_full_name(one.step),
                "namespace": one.namespace,
                "name": one.name,
                "attempted": _convert_value(one.attempted),
                "committed": _convert_value(one.committed),
            }
            for one in figures.user
        ],
        "waits": [render_record(one) for one in execution.waits] if execution else [],
        "failed_bundles": [attrs.asdict(one) for one in execution.failed] if execution else [],
    }


def _convert_value(value: Any) -> Any:
    if attrs.has(type(value)):
        return attrs.asdict(value)
    return sorted(value) if isinstance(value, frozenset) else value


def _format_description(described: _JobDescription) -> Iterator[str]:
    from beam_runner_jobservices.figures.texts import sanitize_for_display
    from beam_runner_model.rendering import render_record, render_waits

    yield from _format_job_header(described)
    if described.figures.stages:
        yield ""
        yield from _build_stage_table(described)
    if any(one.elements_out is not None for one in described.figures.steps.values()):
        yield ""
        yield from _build_step_table(described)
    if described.figures.user:
        yield ""
        yield from _build_counter_table(described)
    execution = described.execution
    if execution and (execution.failed or execution.still):
        yield ""
        yield from (sanitize_for_display(render_record(one)) for one in execution.failed)
        if execution.still:
            waits = render_waits(execution.waits, now=execution.now)
            yield sanitize_for_display(f"no progress for {execution.still:.0f} s: {waits}")


def _format_job_header(described: _JobDescription) -> Iterator[str]:
    from beam_runner_jobservices.figures.texts import (
        format_duration,
        format_utc_time,
        sanitize_for_display,
    )

    job, times = described.job, described.times
    yield f"id         {sanitize_for_display(job.job_id)}"
    yield f"name       {sanitize_for_display(job.job_name)}"
    if times is not None and times.user:
        yield f"user       {sanitize_for_display(times.user)}"
    yield f"state      {job.state.name}"
    if times is None:
        return
    for name, moment in (
        ("submitted", times.submitted),
        ("started", times.started),
        ("ended", times.ended),
        ("kept until", times.kept_until),
        ("back until", times.program_kept_until),
    ):
        if moment is not None:
            yield f"{name:10} {format_utc_time(moment)} UTC"
    if times.predecessor:
        yield f"replaced   {sanitize_for_display(times.predecessor)}"
    if times.successor:
        yield f"successor  {sanitize_for_display(times.successor)}"
    yield f"run time   {format_duration(compute_run_seconds(times, time.time()))}"
    if times.error:
        yield f"error      {sanitize_for_display(times.error)}"


def _build_stage_table(described: _JobDescription) -> Iterator[str]:
    from beam_runner_jobservices.figures.texts import (
        format_exact_number,
        format_size,
        format_watermark,
    )

    from beam_runner_server.job_commands.tables import format_table

    now = time.time()
    rows = [
        (
            one.name,
            "finished" if described.is_finished(one) else format_exact_number(one.open_bundles),
            format_exact_number(one.committed),
            format_exact_number(one.failed),
            format_size(one.waiting_bytes),
            format_watermark(one.output_watermark, now),
        )
        for one in described.figures.stages
    ]
    head = ("STAGE", "OPEN BUNDLES", "COMMITTED", "FAILED", "BACKLOG", "WATERMARK")
    return format_table(head, rows, flexible=0, numbers=frozenset(range(1, 6)))


def _build_step_table(described: _JobDescription) -> Iterator[str]:
    from beam_runner_jobservices.figures.texts import format_duration, format_exact_number

    from beam_runner_server.job_commands.tables import format_table

    rows = []
    for key in described.tree.top:
        one = described.figures.steps[key]
        seconds = None if one.wall is None else one.wall / 1000
        name = described.tree.steps[key].name
        rows.append(
            (
                name,
                format_exact_number(one.elements_in),
                format_exact_number(one.elements_out),
                format_duration(seconds),
            )
        )
    head = ("STEP", "ELEMENTS IN", "ELEMENTS OUT", "TIME")
    return format_table(head, rows, flexible=0, numbers=frozenset((1, 2, 3)))


def _build_counter_table(described: _JobDescription) -> Iterator[str]:
    from beam_runner_server.job_commands.tables import format_table

    rows = []
    for one in described.figures.user:
        value = one.committed if one.committed is not None else one.attempted
        name = f"{one.namespace}.{one.name}"
        rows.append((name, described.tree.get_full_name(one.step), str(_convert_value(value))))
    return format_table(("COUNTER", "STEP", "VALUE"), rows, flexible=1)


COMMAND = Command(
    "describe",
    "Prints the state of a job, and the metrics of its stages, steps and user code.",
    _run_command,
    add_job_argument,
)
