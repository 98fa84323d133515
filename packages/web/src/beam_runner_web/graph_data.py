"""The graph as the script that draws it reads it: nodes and edges with their texts, ready to show."""

from __future__ import annotations

import math
from typing import Any

from .facts import Weight
from .graph import Edge, View
from .job_view import JobView, Row
from .states import StepState
from .texts import harmless, is_end, is_start, number, size, watermark

_LINE_CHARACTERS = 29


def graph_data(job: JobView, seen: View, chosen: str) -> dict[str, Any]:
    """Nodes, each composite before what is in it, and edges."""
    keys = {key: f"n{at}" for at, key in enumerate(job.tree.steps)}
    alarms = _alarms(job, seen)
    return {
        "nodes": [
            {**_node(job, seen, key, keys, chosen), "alarm": alarms.get(key, "")}
            for key in seen.visible
        ],
        "edges": [_edge(job, edge, keys) for edge in seen.edges],
    }


def _alarms(job: JobView, seen: View) -> dict[str, str]:
    """The first sentence that warns of something within each step that is seen closed; one that failed is red as it is."""
    closed = frozenset(seen.visible) - seen.opened
    found: dict[str, str] = {}
    for cause in job.causes:
        if cause.weight <= Weight.WARN and cause.step in job.tree.steps:
            around = (cause.step, *job.tree.way_to(cause.step))
            shown = next((key for key in around if key in closed), "")
            if job.states.get(shown) is not StepState.FAILED:
                found.setdefault(shown, harmless(cause.text, 500))
    return found


def _node(job: JobView, seen: View, key: str, keys: dict[str, str], chosen: str) -> dict[str, Any]:
    row = job.row(key, seen.opened)
    step = row.step
    return {
        "key": keys[key],
        "id": key,
        "parent": keys.get(step.parent, "") if step.parent in seen.opened else "",
        "label": harmless(step.label, 200),
        "name": harmless(step.name, 500),
        "state": row.state.value,
        "composite": bool(step.children),
        "parts": len(step.children),
        "open": row.open,
        "chosen": key == chosen,
        "share": round(row.figures.share or 0.0, 3),
        "lines": _lines(job, row),
    }


def _fitting(parts: list[str]) -> list[str]:
    """Parts on as few lines as hold them, at least one."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if len(longer) <= _LINE_CHARACTERS:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def _lines(job: JobView, row: Row) -> list[str]:
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
    return [line for line in lines if line]


def _edge(job: JobView, edge: Edge, keys: dict[str, str]) -> dict[str, Any]:
    known = [job.figures.counts[one] for one in edge.pcollections if one in job.figures.counts]
    count = sum(known) if known else None
    collections = job.tree.pipeline.pcollections
    described = [
        f"{collections[one].coder}, {collections[one].windows}"
        for one in edge.pcollections
        if one in collections
    ]
    return {
        "source": keys[edge.source],
        "target": keys[edge.target],
        "side": edge.side,
        "label": "" if count is None else number(count),
        "width": 1.2 if not count else round(min(5.0, 1.2 + math.log10(1 + count) / 2), 1),
        "name": harmless("\n".join(described), 1_000),
    }
