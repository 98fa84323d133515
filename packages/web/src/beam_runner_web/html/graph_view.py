"""Pipeline graph for display: steps as boxes with their metrics, and edges between them."""

from __future__ import annotations

import math

import attrs
from beam_runner_jobservices.figures.texts import (
    format_count,
    format_size,
    format_watermark,
    is_max_timestamp,
    is_min_timestamp,
    sanitize_for_display,
    truncate_to_line,
)

from beam_runner_web.causes.facts import CauseSeverity
from beam_runner_web.graph.drawing import EdgePath, StepPosition, StepShape, lay_out_graph
from beam_runner_web.graph.graph import GraphEdge, GraphView, limit_graph_view
from beam_runner_web.watch.states import StepState

from .job_view import JobView, StepRow

_LINE_CHARACTERS = 29
_DESCRIBED_CHARACTERS = 1_000
_CHARACTER = 7.3
"""The approximate width of a character in a label."""


@attrs.frozen
class StepBox:
    """A step: its label, its metrics in lines, and the first warning about the step or a part of it."""

    row: StepRow
    box: StepPosition
    label: str
    lines: tuple[str, ...]
    alarm: str


@attrs.frozen
class EdgeLabel:
    """An edge from one step to another: the amount of data, and its type."""

    edge: GraphEdge
    line: EdgePath
    width: float
    amount: str
    described: str


@attrs.frozen
class GraphPicture:
    """Drawn graph: boxes of steps (each composite before its parts), and edges between steps.

    If the graph has too many steps, only the part around the step `around` is drawn.
    """

    nodes: tuple[StepBox, ...]
    flows: tuple[EdgeLabel, ...]
    width: float
    height: float
    around: str = ""


def draw_graph(job: JobView, seen: GraphView, step: str = "") -> GraphPicture | None:
    """Returns the picture of the visible steps; None if no step is visible.

    If too many steps are visible, draws the part around `step`, or around the step that failed, has a
    problem, or takes the most time.
    """
    if not seen.visible:
        return None
    around = ""
    if seen.too_large:
        around = _find_focused_step(job, seen, step)
        seen = limit_graph_view(seen, around)
    rows = [job.make_step_row(key, seen.opened) for key in seen.visible]
    lines = [() if row.open else _format_metric_lines(job, row) for row in rows]
    alarms = _find_warnings_by_step(job, seen)
    drawn = lay_out_graph(
        tuple(
            StepShape(row.step.id, _find_open_parent(row, seen), len(told), row.open)
            for row, told in zip(rows, lines, strict=True)
        ),
        tuple((edge.source, edge.target) for edge in seen.edges),
    )
    nodes = tuple(
        _make_step_box(row, box, told, alarms.get(row.step.id, ""))
        for row, box, told in zip(rows, drawn.boxes, lines, strict=True)
    )
    flows = tuple(
        _make_edge_label(job, *found) for found in zip(seen.edges, drawn.lines, strict=True)
    )
    name = job.tree.steps[around].name if around else ""
    return GraphPicture(nodes, flows, drawn.width, drawn.height, name)


def _find_focused_step(job: JobView, seen: GraphView, step: str) -> str:
    """Returns the visible, closed step that a reader looks for first."""
    closed = set(seen.visible) - seen.opened
    wanted = (
        step,
        *job.failed_steps,
        *(cause.step for cause in job.causes),
        *(row.step.id for row in job.slowest),
    )
    around = (
        one
        for key in wanted
        if key in job.tree.steps
        for one in (key, *job.tree.list_ancestors(key))
    )
    first = next(one for one in seen.visible if one in closed)
    return next((one for one in around if one in closed), first)


def _find_open_parent(row: StepRow, seen: GraphView) -> str:
    return row.step.parent if row.step.parent in seen.opened else ""


def _make_step_box(row: StepRow, box: StepPosition, lines: tuple[str, ...], alarm: str) -> StepBox:
    room = box.width - (66 if row.step.children else 38) - (14 if alarm else 0)
    return StepBox(row, box, truncate_to_line(row.step.label, int(room / _CHARACTER)), lines, alarm)


def _find_warnings_by_step(job: JobView, seen: GraphView) -> dict[str, str]:
    """Returns, for each visible step, the first warning about the step or its hidden parts. Omits
    failed steps, which are red anyway.
    """
    closed = frozenset(seen.visible) - seen.opened
    found: dict[str, str] = {}
    for cause in job.causes:
        if cause.weight <= CauseSeverity.WARN and cause.step in job.tree.steps:
            around = (cause.step, *job.tree.list_ancestors(cause.step))
            shown = next((key for key in around if key in closed), "")
            if job.states.get(shown) is not StepState.FAILED:
                found.setdefault(shown, cause.text)
    return found


def _wrap_metric_texts(parts: list[str]) -> list[str]:
    """Returns the texts on as few lines as possible, at least one."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if len(longer) <= _LINE_CHARACTERS:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def _format_metric_lines(job: JobView, row: StepRow) -> tuple[str, ...]:
    figures = row.figures
    amounts = []
    if figures.elements_in is not None:
        amounts.append(f"{format_count(figures.elements_in)} in")
    if figures.elements_out is not None:
        amounts.append(f"{format_count(figures.elements_out)} out")
    if row.rate:
        amounts.append(f"{format_count(row.rate)}/s")
    lines = _wrap_metric_texts(amounts)
    if not job.state.is_terminal:
        waiting = []
        mark = row.stage.output_watermark if row.stage and job.streaming else None
        if mark is not None and not is_min_timestamp(mark) and not is_max_timestamp(mark):
            waiting.append(format_watermark(mark, job.snapshot.taken))
        if row.waiting:
            many = row.waiting_elements
            amount = format_count(many) if many else format_size(row.waiting)
            waiting.append(f"{amount} waiting")
        lines += _wrap_metric_texts(waiting)
    return tuple(line for line in lines if line)


def _make_edge_label(job: JobView, edge: GraphEdge, line: EdgePath) -> EdgeLabel:
    known = [job.figures.counts[one] for one in edge.pcollections if one in job.figures.counts]
    count = sum(known) if known else None
    collections = job.tree.pipeline.pcollections
    described = [
        f"{collections[one].coder}, {collections[one].windows}"
        for one in edge.pcollections
        if one in collections
    ]
    return EdgeLabel(
        edge,
        line,
        width=1.2 if not count else round(min(5.0, 1.2 + math.log10(1 + count) / 2), 1),
        amount="" if count is None else format_count(count),
        described=sanitize_for_display("\n".join(described), _DESCRIBED_CHARACTERS),
    )
