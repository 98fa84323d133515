"""Draws tables of keyed.md from the code: `python docs/engine/draw_keyed_tables.py`.

One table shows what triggers do, the other what happens at a moment and beyond it. A test of the
engine fails when the page and the code differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import attrs
from beam_runner_engine.keyed.composite_triggers import create_machine
from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.stateful import StatefulShard
from beam_runner_engine.keyed.stateful_records import StatefulSpec
from beam_runner_engine.keyed.timers import TimeDomain, Timer
from beam_runner_engine.keyed.triggers import TriggerTime
from beam_runner_engine.testing.stores import MemoryCellStore
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterEndOfWindow,
    AfterProcessingTime,
    AfterSynchronizedProcessingTime,
    Always,
    DefaultTrigger,
    Delay,
    Never,
    OrFinally,
    Repeatedly,
    Trigger,
)
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import FixedWindows
from beam_runner_model.windows import IntervalWindow

PAGE = Path(__file__).with_name("keyed.md")
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

COUNT = AfterCount
TRIGGERS: dict[str, Trigger] = {
    "`DefaultTrigger()`": DefaultTrigger(),
    "`Always()`": Always(),
    "`AfterSynchronizedProcessingTime()`": AfterSynchronizedProcessingTime(),
    "`Never()`": Never(),
    "`AfterCount(2)`": COUNT(2),
    "`AfterProcessingTime((Delay(1),))`": AfterProcessingTime((Delay(1),)),
    "`AfterEndOfWindow()`": AfterEndOfWindow(),
    "`AfterEndOfWindow(early=AfterCount(2))`": AfterEndOfWindow(early=COUNT(2)),
    "`AfterEndOfWindow(late=AfterCount(2))`": AfterEndOfWindow(late=COUNT(2)),
    "`AfterAll((AfterCount(2), AfterEndOfWindow()))`": AfterAll((COUNT(2), AfterEndOfWindow())),
    "`AfterAny((AfterCount(2), AfterEndOfWindow()))`": AfterAny((COUNT(2), AfterEndOfWindow())),
    "`AfterEach((AfterCount(1), AfterCount(2)))`": AfterEach((COUNT(1), COUNT(2))),
    "`OrFinally(Always(), AfterCount(3))`": OrFinally(Always(), COUNT(3)),
    "`OrFinally(AfterCount(5), Repeatedly(AfterCount(2)))`": OrFinally(
        COUNT(5), Repeatedly(COUNT(2))
    ),
    "`Repeatedly(AfterCount(2))`": Repeatedly(COUNT(2)),
}
"""The triggers in the table, as they are written and as they are."""

STEPS = ("element", "element", "element", "time passes", "the end passes", "element", "element")


def firings(trigger: Trigger) -> list[str]:
    """Returns what a trigger does after each of the steps."""
    asked = create_machine(trigger)
    state, at = asked.initial_state, TriggerTime(ended=False, processing_time=0)
    cells: list[str] = []
    for step in STEPS:
        if cells and cells[-1] in ("fires, finished", "dropped", ""):
            cells.append("dropped" if step == "element" else "")
            continue
        if step == "element":
            state = asked.add_elements(state, 1, at)
        elif step == "time passes":
            at = at._replace(processing_time=1)
        else:
            at = at._replace(ended=True)
        asks = {
            "time passes": asked.get_next_wake_up_time(state) is not None,
            "the end passes": asked.depends_on_window_end,
        }
        if not asks.get(step, True) or not asked.is_ready(state, at):
            cells.append("-")
        else:
            state, finished = asked.fire_trigger(state, at)
            cells.append("fires, finished" if finished else "fires")
    return cells


T = 99
KEY, WINDOW = b"key", encode_window(IntervalWindow(0, T + 1))
FIXED = WindowingStrategy(FixedWindows(T + 1))


def _element(offset: int) -> str:
    grouper = TriggeredGrouper(
        attrs.evolve(FIXED, timestamp_combiner=TimestampCombiner.EARLIEST, allowed_lateness=1),
        MemoryCellStore(),
    )
    grouper.process_elements([KEY], [WINDOW], [T], [b""], CurrentTimes(T + offset))
    return "on time" if grouper.finish_bundle().summary.min_hold == T else "late"


def _default_trigger(offset: int) -> str:
    grouper = TriggeredGrouper(FIXED, MemoryCellStore())
    grouper.process_elements([KEY], [WINDOW], [0], [b""], CurrentTimes(0))
    return "fires" if grouper.advance_time(CurrentTimes(T + offset)) else "waits"


def _closing(offset: int) -> str:
    grouper = TriggeredGrouper(FIXED, MemoryCellStore())
    grouper.process_elements([KEY], [WINDOW], [0], [b""], CurrentTimes(T + offset))
    return "closed" if grouper.finish_bundle().dropped else "open"


def _after_processing_time(offset: int) -> str:
    trigger = AfterProcessingTime((Delay(T),))
    grouper = TriggeredGrouper(attrs.evolve(FIXED, trigger=trigger), MemoryCellStore())
    grouper.process_elements([KEY], [WINDOW], [0], [b""], CurrentTimes(0, 0))
    return "fires" if grouper.advance_time(CurrentTimes(0, T + offset)) else "waits"


def _stateful(*, sorted_input: bool = False) -> StatefulShard:
    """Returns a shard with an element at T: of sorted input, or in the window that expires at T."""
    strategy, window = (WindowingStrategy(), b"") if sorted_input else (FIXED, WINDOW)
    spec = StatefulSpec(
        strategy, on_window_expiration=not sorted_input, time_sorted_input=sorted_input
    )
    shard = StatefulShard(spec, MemoryCellStore())
    shard.accept_elements([KEY], [window], [T], [b""], CurrentTimes(0))
    return shard


def _sorted_element(offset: int) -> str:
    return (
        "goes on"
        if _stateful(sorted_input=True).take_next_due_work(CurrentTimes(T + offset))
        else "waits"
    )


def _expiry(offset: int) -> str:
    return "expired" if _stateful().take_next_due_work(CurrentTimes(T + offset)) else "open"


def _timer(domain: TimeDomain) -> Callable[[int], str]:
    def moment(offset: int) -> str:
        shard = StatefulShard(StatefulSpec(WindowingStrategy()), MemoryCellStore())
        shard.set_timer(Timer(KEY, b"", "family", "", domain, T, None))
        event_time = domain is TimeDomain.EVENT_TIME
        now = CurrentTimes(T + offset, 0) if event_time else CurrentTimes(0, T + offset)
        return "rings" if shard.take_next_due_work(now) else "waits"

    return moment


MOMENTS: dict[str, Callable[[int], str]] = {
    "element at T": _element,
    "timer in event time, set for T": _timer(TimeDomain.EVENT_TIME),
    "time-sorted element at T": _sorted_element,
    "default trigger, the last timestamp of the window is T": _default_trigger,
    "window of a grouping, its expiry is T": _closing,
    "window of user state, its expiry is T": _expiry,
    "timer in processing time, set for T": _timer(TimeDomain.PROCESSING_TIME),
    "`AfterProcessingTime`, due at T": _after_processing_time,
}
"""What happens to each when time is at T plus an offset (ms)."""


def moments() -> str:
    """Returns the table of moments as Markdown: a row for each, columns before, at and beyond T."""
    lines = ["| | 1 ms before T | at T | 1 ms beyond T |", "|---|---|---|---|"]
    for text, moment in MOMENTS.items():
        lines.append(f"| {text} | " + " | ".join(map(moment, (-1, 0, 1))) + " |")
    return "\n".join(lines) + "\n"


def triggers() -> str:
    """Returns the table of triggers as Markdown: a row per trigger, a column per step."""
    lines = ["| trigger | " + " | ".join(STEPS) + " |", "|---" * (len(STEPS) + 1) + "|"]
    for text, trigger in TRIGGERS.items():
        lines.append(f"| {text} | " + " | ".join(firings(trigger)) + " |")
    return "\n".join(lines) + "\n"


def drawn(page: str) -> str:
    """Returns the page with its tables as the code has them now."""
    tables = {"triggers": triggers, "moments": moments}
    return BLOCK.sub(lambda block: block[1] + tables[block[2]]() + block[3], page)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
