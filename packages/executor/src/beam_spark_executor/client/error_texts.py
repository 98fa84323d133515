"""Formatting of a failed job's error for the user: frames of user code, then one line with the error,
step and element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_ELEMENT = "The element: "
_HALF_LINE = 2000
"""Number of characters to show of each end of a line. An exception can have all its data as text."""
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line \d+, in ')
_INTERNAL = re.compile(r"(^|/)(beam_runner_\w+|beam_spark_\w+|apache_beam/runners)/")


def shorten_failure(text: str) -> str:
    """Returns the text of a failure without frames of the runner.

    The last line has the error, the name of the step, and the element if the worker knows it.
    """
    summary, *lines = text.rstrip().split("\n")
    element = next((line for line in lines if line.startswith(_ELEMENT)), "")
    trace = list(_drop_internal_frames([line for line in lines if line != element]))
    where = f"{summary}; {element[0].lower()}{element[1:]}" if element else summary
    error = summary.partition(" [while running ")[0]
    while trace and (not trace[-1].strip() or trace[-1].strip() == error):
        trace.pop()
    return "\n".join((*trace, where)) if any(map(_FRAME.match, trace)) else where


def _drop_internal_frames(lines: Sequence[str]) -> Iterator[str]:
    """Yields the lines of a traceback, except those of internal frames."""
    is_internal = False
    for line in lines:
        frame = _FRAME.match(line)
        if frame is not None:
            is_internal = _INTERNAL.search(frame["file"]) is not None
        elif not line.startswith("    "):
            is_internal = False
        if not is_internal:
            yield line


def _shorten_lines(text: str) -> str:
    """Removes the middle of long lines. The end of the last line names the step and the element."""
    return "\n".join(
        f"{line[:_HALF_LINE]} ... {line[-_HALF_LINE:]}" if len(line) > 2 * _HALF_LINE else line
        for line in text.split("\n")
    )


def format_failure(job_id: str, state: str, text: str, *, is_verbose: bool) -> str:
    """Returns the text of the exception for a failed job.

    Args:
        text: the last error of the job.
        is_verbose: whether to keep the frames of the runner and the middle of long lines.
    """
    shown = text if is_verbose else _shorten_lines(shorten_failure(text))
    separator = "\n" if shown.startswith((_TRACEBACK, " ")) else " "
    return f"Pipeline {job_id} failed in state {state}:{separator}{shown}"
