"""Content of a job's pages, computed from a snapshot of the job. HTML, JSON and the report use the same records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs
from beam_runner_jobservices.error_log import FailureGroup
from beam_runner_jobservices.figures.costs import JobCosts, compute_job_costs
from beam_runner_jobservices.figures.progress_texts import describe_estimate, describe_progress
from beam_runner_jobservices.figures.step_metrics import StageFigures, StepFigures
from beam_runner_jobservices.figures.step_tree import StepNode
from beam_runner_jobservices.figures.texts import is_max_timestamp, is_min_timestamp
from beam_runner_jobservices.job_log import LogAnswer, LogQuery
from beam_runner_model.jobs import JobState

from beam_runner_web.causes.causes import find_causes
from beam_runner_web.causes.facts import Cause, JobFacts
from beam_runner_web.graph.graph import GraphView, choose_open_composites, make_graph_view
from beam_runner_web.watch import masking
from beam_runner_web.watch.snapshots import JobSnapshot, count_output_elements
from beam_runner_web.watch.states import ENDED_WELL, StepState, compute_step_states, get_stage_state
from beam_runner_web.watch.timeline import (
    SeriesChart,
    StageTimeline,
    make_stage_charts,
    make_stage_timeline,
)

_CAN_END = frozenset({JobState.STARTING, JobState.RUNNING, JobState.DRAINING})
_SLOWEST = 6
_SORTS = ("name", "in", "out", "rate", "wall")


@attrs.frozen
class StepRow:
    """Row of the table of steps.

    Attributes:
        rate: the number of output elements per second.
        stage: of the stages that run the step, the one with the latest watermark.
        waiting: the number of bytes that wait for the step.
        waiting_elements: the number of elements that wait for the step.
    """

    step: StepNode
    state: StepState
    figures: StepFigures
    rate: float | None
    stage: StageFigures | None
    waiting: int | None = None
    waiting_elements: int | None = None
    open: bool = False


class JobView:
    """Content of a job's page for one request. Not thread-safe."""

    def __init__(
        self,
        snapshot: JobSnapshot,
        ask_logs: Callable[[LogQuery], LogAnswer | None] = lambda query: None,
    ) -> None:
        self.snapshot = snapshot
        self.ask_logs = ask_logs
        """Returns a part of the server's log; None if the server has no such call."""
        self.tree = snapshot.tree
        self.figures = snapshot.figures

    @property
    def id(self) -> str:
        return self.snapshot.job.job_id

    @cached_property
    def name(self) -> str:
        """The user's name for the job, which some servers report only among the options."""
        named = masking.get_option(self.snapshot.job.options, masking.JOB_NAME)
        return str(named or self.snapshot.job.job_name or self.id)

    @property
    def state(self) -> JobState:
        return self.snapshot.state

    @property
    def can_cancel(self) -> bool:
        return self.state in _CAN_END

    @property
    def can_drain(self) -> bool:
        return self.state is JobState.RUNNING

    @cached_property
    def streaming(self) -> bool:
        """Whether the job is a stream."""
        return self.snapshot.streaming

    @cached_property
    def failures(self) -> Sequence[FailureGroup]:
        """The errors, the latest first."""
        return tuple(reversed(self.snapshot.failures))

    @cached_property
    def failed_steps(self) -> frozenset[str]:
        """The step whose error ended the job."""
        if self.state is not JobState.FAILED:
            return frozenset()
        return frozenset(one.failure.step for one in self.failures[:1] if one.failure.step)

    @cached_property
    def states(self) -> Mapping[str, StepState]:
        moving = frozenset(
            key
            for key in self.figures.steps
            if (self.snapshot.compute_rate(count_output_elements(key)) or 0) > 0
        )
        return compute_step_states(self.tree, self.figures, self.state, self.failed_steps, moving)

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        return find_causes(JobFacts(self.snapshot, self.failures, dict(self.states)))

    @cached_property
    def progress_parts(self) -> tuple[str, ...]:
        """The parts of the line about the job's progress; empty for a job that doesn't run."""
        progress = self.snapshot.progress
        is_active = self.state in (JobState.RUNNING, JobState.DRAINING)
        return describe_progress(progress, self.state) if progress and is_active else ()

    @cached_property
    def estimate_text(self) -> str:
        """The method of the estimated time; empty without progress."""
        progress = self.snapshot.progress
        return describe_estimate(progress, self.state) if progress and self.progress_parts else ""

    @cached_property
    def costs(self) -> JobCosts | None:
        """The costs of the job; None if the server doesn't report them."""
        return compute_job_costs(self.figures.stages)

    @cached_property
    def stages_by_step(self) -> Mapping[str, StageFigures]:
        """For each step, the stage that runs the step and is furthest behind in event time."""
        found: dict[str, StageFigures] = {}
        for stage in self.figures.stages:
            for key in stage.steps:
                for one in (key, *self.tree.list_ancestors(key)):
                    if one not in found or _get_output_watermark(stage) < _get_output_watermark(
                        found[one]
                    ):
                        found[one] = stage
        return found

    @cached_property
    def waiting(self) -> Mapping[str, tuple[int, int]]:
        """Number of waiting bytes and elements for each step: input of the stages that begin with
        the step or a part of the step.
        """
        found: dict[str, tuple[int, int]] = {}
        for stage in self.figures.stages:
            for key in (
                (stage.steps[0], *self.tree.list_ancestors(stage.steps[0])) if stage.steps else ()
            ):
                size, elements = found.get(key, (0, 0))
                size += stage.waiting_bytes or 0
                found[key] = (size, elements + (stage.pending_elements or 0))
        return found

    def make_graph_view(self, opened: Sequence[str] | None) -> GraphView:
        """Returns the graph view with these composites open; by default, opens the most informative composites."""
        chosen = choose_open_composites(self.tree, self.failed_steps) if opened is None else opened
        return make_graph_view(self.tree, chosen)

    def make_step_row(self, key: str, opened: frozenset[str] = frozenset()) -> StepRow:
        """Returns the row of a step in the table of steps."""
        waiting_bytes, waiting_elements = self.waiting.get(key, (None, None))
        return StepRow(
            self.tree.steps[key],
            self.states.get(key, StepState.IDLE),
            self.figures.steps.get(key, StepFigures()),
            self.snapshot.compute_rate(count_output_elements(key)),
            self.stages_by_step.get(key),
            waiting_bytes,
            waiting_elements,
            open=key in opened,
        )

    def make_step_rows(self, seen: GraphView, sort: str = "") -> list[StepRow]:
        """Returns the rows of the table: the visible tree, or all steps without parts, sorted."""
        descending = sort.startswith("-")
        by = sort.removeprefix("-")
        if by not in _SORTS:
            return [self.make_step_row(key, seen.opened) for key in seen.visible]
        leaves = [
            self.make_step_row(key) for key, step in self.tree.steps.items() if not step.children
        ]
        known = [row for row in leaves if _get_sort_key(row, by) is not None]
        unknown = [row for row in leaves if _get_sort_key(row, by) is None]
        return sorted(known, key=lambda row: _get_sort_key(row, by), reverse=descending) + unknown

    @cached_property
    def slowest(self) -> list[StepRow]:
        """Returns the steps without parts that took the most time."""
        walls = [
            (figures.wall or 0, key)
            for key, figures in self.figures.steps.items()
            if figures.wall and not self.tree.steps[key].children
        ]
        return [self.make_step_row(key) for _, key in sorted(walls, reverse=True)[:_SLOWEST]]

    def get_stage_state(self, stage: StageFigures) -> StepState:
        """Returns the state of a stage, which can be finished."""
        if not self.state.is_terminal:
            return get_stage_state(stage)
        return StepState.DONE if self.state in ENDED_WELL else StepState.IDLE

    @cached_property
    def stages(self) -> list[StageFigures]:
        """Returns the stages, with waiting and active ones first."""
        return sorted(self.figures.stages, key=lambda one: (not one.waits, not one.open_bundles))

    @cached_property
    def timeline(self) -> StageTimeline | None:
        """Returns the times at which each stage was active; None if the server doesn't report these
        times.
        """
        return make_stage_timeline(self.snapshot)

    def make_stage_charts(self, stage_id: str) -> tuple[SeriesChart, ...]:
        """Returns small charts of a stage's history."""
        return make_stage_charts(self.snapshot, stage_id)

    @cached_property
    def latest_stage(self) -> StageFigures | None:
        """Returns the stage of a running stream that is furthest behind in event time; None if no
        stage reports event time.
        """
        if self.state.is_terminal or not self.streaming:
            return None
        marks = ((one.output_watermark, one) for one in self.figures.stages)
        known = [
            (at, one)
            for at, one in marks
            if at and not (is_min_timestamp(at) or is_max_timestamp(at))
        ]
        return min(known, key=lambda found: found[0], default=(0, None))[1]

    @cached_property
    def options(self) -> list[tuple[str, Any]]:
        return masking.list_masked_options(self.snapshot.job.options)


def _get_output_watermark(stage: StageFigures) -> int:
    return 0 if stage.output_watermark is None else stage.output_watermark


def _get_sort_key(row: StepRow, by: str) -> Any:
    match by:
        case "name":
            return row.step.name
        case "in":
            return row.figures.elements_in
        case "out":
            return row.figures.elements_out
        case "rate":
            return row.rate
        case _:
            return row.figures.wall
