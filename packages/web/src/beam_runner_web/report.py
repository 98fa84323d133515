"""A job as one HTML file, for a ticket: figures, errors, options and the last of the log; no script."""

from __future__ import annotations

import time
from typing import Any

from .drawing import WIDTH, drawing
from .graph_data import graph_data
from .job_view import JobView
from .logs import LogFilter, last_lines
from .rendering import Renderer

_LAST_LINES = 1_000


def report(renderer: Renderer, view: JobView) -> str:
    """The file's text; options are masked as on the pages."""
    values = {
        "job": view,
        "graph": _graph(view),
        "rows": [view.row(key) for key in view.tree.steps],
        "lines": last_lines(view, LogFilter(), _LAST_LINES).lines,
        "made": time.time(),
        "title": view.name,
    }
    return renderer.page("report.html", values)


def _graph(view: JobView) -> dict[str, Any] | None:
    """The graph as the job's page shows it first; None where it has too many steps to be read.

    Of an open composite its parts are drawn, and say what they are in.
    """
    seen = view.view(None)
    if seen.too_large or not seen.visible:
        return None
    found = graph_data(view, seen, "")
    nodes = {node["key"]: node for node in found["nodes"] if not node["open"]}
    labels = {node["key"]: node["label"] for node in found["nodes"]}
    for node in nodes.values():
        if node["parent"]:
            node["lines"].insert(0, f"in {labels[node['parent']]}")
    edges = {(edge["source"], edge["target"]): edge for edge in found["edges"]}
    drawn = drawing({key: len(node["lines"]) for key, node in nodes.items()}, edges)
    return {"drawing": drawn, "nodes": nodes, "edges": edges, "width": WIDTH}
