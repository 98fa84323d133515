"""Report about a job as one HTML file without scripts, for a bug report: metrics, errors, options
and the end of the log.
"""

from __future__ import annotations

import time

from .graph_view import draw_graph
from .job_view import JobView
from .logs import LogFilter, read_last_log_lines
from .rendering import Renderer

_LAST_LINES = 1_000


def render_report(renderer: Renderer, view: JobView) -> str:
    """Returns the file's text; options are masked as on the pages."""
    values = {
        "job": view,
        "graph": draw_graph(view, view.make_graph_view(None)),
        "linked": False,
        "rows": [view.make_step_row(key) for key in view.tree.steps],
        "lines": read_last_log_lines(view, LogFilter(), _LAST_LINES).lines,
        "made": time.time(),
        "title": view.name,
    }
    return renderer.render_page("report.html", values)
