"""Draws the scheduler's transition tables into theory.md: `python docs/engine/draw_tables.py`.

A test of the engine fails when the page and the code differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beam_runner_engine.scheduler import retries
from beam_runner_engine.scheduler.transitions import (
    BUNDLE_TABLE,
    JOB_TABLE,
    BundleState,
    Phase,
    Reaction,
    Transition,
)

PAGE = Path(__file__).with_name("theory.md")
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def cell(transition: Transition | None) -> str:
    """Tells what an event does in a word: the states it may lead to, or that it is ignored or
    illegal.
    """
    if transition is None:
        return "illegal"
    if transition.reaction is Reaction.IGNORE:
        return "ignored"
    return ", ".join(state.value for state in transition.to)


def table(name: str) -> str:
    """Returns the table of this name as Markdown.

    The table of retries is that of the module's docstring; the others have a row per event, and a
    column per state or per states with equal cells.
    """
    if name == "retries":
        lines = (retries.__doc__ or "").splitlines(keepends=True)
        return "".join(line for line in lines if line.startswith("|"))
    tables: dict[str, tuple[tuple[Any, ...], Mapping[Any, Transition]]] = {
        "job": (tuple(Phase), JOB_TABLE),
        "bundle": (tuple(BundleState), BUNDLE_TABLE),
    }
    states, transitions = tables[name]
    events = dict.fromkeys(event for _, event in transitions)
    columns: dict[tuple[str, ...], list[str]] = {}
    for state in states:
        column = tuple(cell(transitions.get((state, event))) for event in events)
        columns.setdefault(column, []).append(state.value)
    lines = [
        "| event | " + " | ".join(map(", ".join, columns.values())) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for event, cells in zip(events, zip(*columns, strict=True), strict=True):
        lines.append(f"| `{event.__name__}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def drawn(page: str) -> str:
    """Returns the page with its tables as the code has them now."""
    return BLOCK.sub(lambda block: block[1] + table(block[2]) + block[3], page)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
