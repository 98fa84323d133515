"""The graph of a view, ready for display: steps as boxes with their metrics, and edges between them."""

from __future__ import annotations

import math

import attrs
from beam_runner_jobservices.figures.texts import (
    harmless,
    is_end,
    is_start,
    number,
    one_line,
    size,
    watermark,
)

from beam_runner_web.causes.facts import Weight
from beam_runner_web.graph.drawing import Box, Line, Shape, drawing
from beam_runner_web.graph.graph import Edge, View
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
    box: Box
    label: str
    lines: tuple[str, ...]
    alarm: str


@attrs.frozen
class Flow:
    """An edge from one step to another: the amount of data, and its type."""

    edge: Edge
    line: Line
    width: float
    amount: str
    described: str


@attrs.frozen
class Picture:
    """Nodes, each composite before its parts, and the edges between closed steps."""

    nodes: tuple[StepBox, ...]
    flows: tuple[Flow, ...]
    width: float
    height: float


def picture(job: JobView, seen: View) -> Picture | None:
    """Returns the picture of the visible steps; None if no step is visible, or too many steps to be readable."""
    if seen.too_large or not seen.visible:
        return None
    rows = [job.row(key, seen.opened) for key in seen.visible]
    lines = [() if row.open else _lines(job, row) for row in rows]
    alarms = _alarms(job, seen)
    drawn = drawing(
        tuple(
            Shape(row.step.id, _around(row, seen), len(told), row.open)
            for row, told in zip(rows, lines, strict=True)
        ),
        tuple((edge.source, edge.target) for edge in seen.edges),
    )
    nodes = tuple(
        _node(row, box, told, alarms.get(row.step.id, ""))
        for row, box, told in zip(rows, drawn.boxes, lines, strict=True)
    )
    flows = tuple(_flow(job, *found) for found in zip(seen.edges, drawn.lines, strict=True))
    return Picture(nodes, flows, drawn.width, drawn.height)


def _around(row: StepRow, seen: View) -> str:
    return row.step.parent if row.step.parent in seen.opened else ""


def _node(row: StepRow, box: Box, lines: tuple[str, ...], alarm: str) -> StepBox:
    room = box.width - (66 if row.step.children else 38) - (14 if alarm else 0)
    return StepBox(row, box, one_line(row.step.label, int(room / _CHARACTER)), lines, alarm)


def _alarms(job: JobView, seen: View) -> dict[str, str]:
    """Returns the first warning within each visible closed step. A failed step is red without a warning."""
    closed = frozenset(seen.visible) - seen.opened
    found: dict[str, str] = {}
    for cause in job.causes:
        if cause.weight <= Weight.WARN and cause.step in job.tree.steps:
            around = (cause.step, *job.tree.way_to(cause.step))
            shown = next((key for key in around if key in closed), "")
            if job.states.get(shown) is not StepState.FAILED:
                found.setdefault(shown, cause.text)
    return found


def _fitting(parts: list[str]) -> list[str]:
    """Returns the texts on as few lines as possible, at least one."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if len(longer) <= _LINE_CHARACTERS:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def _lines(job: JobView, row: StepRow) -> tuple[str, ...]:
    figures = row.figures
    amounts = []
    if figures.elements_in is not None:
        amounts.append(f"{number(figures.elements_in)} in")
    if figures.elements_out is not None:
        amounts.append(f"{number(figures.elements_out)} out")
    if row.rate:
        amounts.append(f"{number(row.rate)}/s")
    lines = _fitting(amounts)
    if not job.state.is_terminal:
        waiting = []
        mark = row.stage.output_watermark if row.stage and job.streaming else None
        if mark is not None and not is_start(mark) and not is_end(mark):
            waiting.append(watermark(mark, job.snapshot.taken))
        if row.waiting:
            waiting.append(f"{size(row.waiting)} waiting")
        lines += _fitting(waiting)
    return tuple(line for line in lines if line)


def _flow(job: JobView, edge: Edge, line: Line) -> Flow:
    known = [job.figures.counts[one] for one in edge.pcollections if one in job.figures.counts]
    count = sum(known) if known else None
    collections = job.tree.pipeline.pcollections
    described = [
        f"{collections[one].coder}, {collections[one].windows}"
        for one in edge.pcollections
        if one in collections
    ]
    return Flow(
        edge,
        line,
        width=1.2 if not count else round(min(5.0, 1.2 + math.log10(1 + count) / 2), 1),
        amount="" if count is None else number(count),
        described=harmless("\n".join(described), _DESCRIBED_CHARACTERS),
    )
