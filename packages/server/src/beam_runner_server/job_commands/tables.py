"""Text tables that fit into the terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence

from beam_runner_jobservices.figures.texts import sanitize_for_display

_GAP = 2
_NARROWEST = 8


def format_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    flexible: int,
    numbers: frozenset[int] = frozenset(),
) -> Iterator[str]:
    """Yields the lines of a table.

    Args:
        head: the titles of the columns.
        rows: the cells. Texts of users are sanitized: one line, without control characters.
        flexible: the column that is truncated if the table is wider than the terminal.
        numbers: the columns that are aligned on the right.
    """
    cells = [tuple(head), *(tuple(map(_format_cell, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    excess = sum(widths) + _GAP * (len(widths) - 1) - get_terminal_width()
    widths[flexible] = max(min(widths[flexible], _NARROWEST), widths[flexible] - max(0, excess))
    for row in cells:
        shown = (
            cell.rjust(width) if at in numbers else truncate(cell, width).ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield (" " * _GAP).join(shown).rstrip()


def truncate(text: str, width: int) -> str:
    """Returns the text, with an ellipsis in place of its middle if the text is longer than `width`."""
    if len(text) <= width:
        return text
    left = (width - 1) // 2
    right = width - 1 - left
    return f"{text[:left]}…{text[len(text) - right :]}"


def get_terminal_width() -> int:
    """Returns the number of columns of the terminal, or a large number if the output isn't a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 1 << 20


def _format_cell(text: str) -> str:
    return " ".join(sanitize_for_display(text).split())
