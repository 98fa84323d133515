"""Draws what triggers do into keyed.md, by asking them: `python docs/engine/draw_keyed_tables.py`.

A test of the engine fails when the page and the code differ.
"""

from __future__ import annotations

import re
from pathlib import Path

import beam_runner_engine as engine
from beam_runner_engine.keyed.composite_triggers import machine
from beam_runner_engine.keyed.triggers import Instant

PAGE = Path(__file__).with_name("keyed.md")
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

COUNT = engine.AfterCount
TRIGGERS: dict[str, engine.Trigger] = {
    "`DefaultTrigger()`": engine.DefaultTrigger(),
    "`Always()`": engine.Always(),
    "`AfterSynchronizedProcessingTime()`": engine.AfterSynchronizedProcessingTime(),
    "`Never()`": engine.Never(),
    "`AfterCount(2)`": COUNT(2),
    "`AfterProcessingTime((Delay(1),))`": engine.AfterProcessingTime((engine.Delay(1),)),
    "`AfterEndOfWindow()`": engine.AfterEndOfWindow(),
    "`AfterEndOfWindow(early=AfterCount(2))`": engine.AfterEndOfWindow(early=COUNT(2)),
    "`AfterEndOfWindow(late=AfterCount(2))`": engine.AfterEndOfWindow(late=COUNT(2)),
    "`AfterAll((AfterCount(2), AfterEndOfWindow()))`": engine.AfterAll(
        (COUNT(2), engine.AfterEndOfWindow())
    ),
    "`AfterAny((AfterCount(2), AfterEndOfWindow()))`": engine.AfterAny(
        (COUNT(2), engine.AfterEndOfWindow())
    ),
    "`AfterEach((AfterCount(1), AfterCount(2)))`": engine.AfterEach((COUNT(1), COUNT(2))),
    "`OrFinally(Always(), AfterCount(3))`": engine.OrFinally(engine.Always(), COUNT(3)),
    "`OrFinally(AfterCount(5), Repeatedly(AfterCount(2)))`": engine.OrFinally(
        COUNT(5), engine.Repeatedly(COUNT(2))
    ),
    "`Repeatedly(AfterCount(2))`": engine.Repeatedly(COUNT(2)),
}
"""The triggers in the table, as they are written and as they are."""

STEPS = ("element", "element", "element", "time passes", "the end passes", "element", "element")


def firings(trigger: engine.Trigger) -> list[str]:
    """Returns what a trigger does after each of the steps."""
    asked = machine(trigger)
    state, at = asked.initial, Instant(ended=False, processing_time=0)
    cells: list[str] = []
    for step in STEPS:
        if cells and cells[-1] in ("fires, finished", "dropped", ""):
            cells.append("dropped" if step == "element" else "")
            continue
        if step == "element":
            state = asked.add(state, 1, at)
        elif step == "time passes":
            at = at._replace(processing_time=1)
        else:
            at = at._replace(ended=True)
        asks = {"time passes": asked.wake(state) is not None, "the end passes": asked.watches_end}
        if not asks.get(step, True) or not asked.ready(state, at):
            cells.append("-")
        else:
            state, finished = asked.fire(state, at)
            cells.append("fires, finished" if finished else "fires")
    return cells


def table() -> str:
    """Returns the table as Markdown: a row per trigger, a column per step."""
    lines = ["| trigger | " + " | ".join(STEPS) + " |", "|---" * (len(STEPS) + 1) + "|"]
    for text, trigger in TRIGGERS.items():
        lines.append(f"| {text} | " + " | ".join(firings(trigger)) + " |")
    return "\n".join(lines) + "\n"


def drawn(page: str) -> str:
    """Returns the page with its table as the code has it now."""
    return BLOCK.sub(lambda block: block[1] + table() + block[3], page)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
