"""A job as one HTML file, for a ticket: figures, errors, options and the last of the log; no script."""

from __future__ import annotations

import time

from .job_view import JobView
from .rendering import Renderer

_LAST_LINES = 1_000


def report(renderer: Renderer, view: JobView) -> str:
    """The file's text; options are masked as on the pages."""
    values = {
        "job": view,
        "rows": [view.row(key) for key in view.tree.steps],
        "lines": view.log_lines[-_LAST_LINES:],
        "made": time.time(),
        "title": view.name,
    }
    return renderer.page("report.html", values)
