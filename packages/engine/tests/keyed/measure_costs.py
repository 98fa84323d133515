"""Measures what grouping costs against a plain dict loop: `python measure_costs.py`.

Prints a Markdown table of ratios of CPU time. The data are encoded elements of 1,000 keys, a
hundred of each in one window, grouped in one bundle that ends with the end of time.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import beam_runner_engine as engine
from beam_runner_engine.testing import MemoryStore

COUNT = 100_000
WINDOWS = engine.FixedWindows(10_000)
KEYS = [b"key%d" % (number * 7919 % 1000) for number in range(COUNT)]
TIMES = [number % 10_000 for number in range(COUNT)]
COLUMN = [engine.encode_window(engine.assign_windows(WINDOWS, time)[0]) for time in TIMES]
VALUES = [b"value%d" % number for number in range(COUNT)]
SESSION_TIMES = [number // 1000 * 60 for number in range(COUNT)]
SESSIONS = [
    engine.encode_window(engine.assign_windows(engine.Sessions(100), time)[0])
    for time in SESSION_TIMES
]
EVERY_TENTH = engine.AfterCount(10)
IN_A_WHILE = engine.AfterProcessingTime((engine.Delay(5),))
TRIGGERS: dict[str, engine.Trigger] = {
    "default": engine.DefaultTrigger(),
    "never": engine.Never(),
    "repeatedly after processing time": engine.Repeatedly(IN_A_WHILE),
    "repeatedly after 10": engine.Repeatedly(EVERY_TENTH),
    "after end of window, early after 10": engine.AfterEndOfWindow(early=EVERY_TENTH),
    "repeatedly any of after 10, after processing time": engine.Repeatedly(
        engine.AfterAny((EVERY_TENTH, IN_A_WHILE))
    ),
    "repeatedly each of after 8, after 12": engine.Repeatedly(
        engine.AfterEach((engine.AfterCount(8), engine.AfterCount(12)))
    ),
    "always: a pane per element": engine.Always(),
}


def dict_loop() -> Any:
    """Groups by key and window, and nothing else."""
    groups: defaultdict[tuple[bytes, bytes], list[bytes]] = defaultdict(list)
    for key, window, value in zip(KEYS, COLUMN, VALUES, strict=True):
        groups[key, window].append(value)
    return list(groups.items())


def bulk() -> Any:
    """Groups in bulk, as bounded data with the default trigger is."""
    grouper = engine.bulk_grouper(engine.WindowingStrategy(WINDOWS))
    grouper.add(KEYS, COLUMN, TIMES, VALUES)
    return list(grouper.groups())


def triggered(trigger: engine.Trigger) -> Any:
    """Groups with a trigger that is evaluated after every element."""
    strategy = engine.WindowingStrategy(WINDOWS, trigger=trigger)
    grouper = engine.TriggeredGrouper(strategy, MemoryStore())
    groups = grouper.process(KEYS, COLUMN, TIMES, VALUES, engine.Now(0, 0, 0))
    groups += grouper.advance(engine.Now(engine.MAX_TIMESTAMP, 100))
    grouper.commit()
    return groups


def sessions(trigger: engine.Trigger) -> Any:
    """Groups in sessions of a key each, which grow with every element."""
    strategy = engine.WindowingStrategy(
        engine.Sessions(100), merge_status=engine.MergeStatus.NEEDS_MERGE, trigger=trigger
    )
    grouper = engine.TriggeredGrouper(strategy, MemoryStore())
    groups = grouper.process(KEYS, SESSIONS, SESSION_TIMES, VALUES, engine.Now(0, 0, 0))
    groups += grouper.advance(engine.Now(engine.MAX_TIMESTAMP, 100))
    grouper.commit()
    return groups


def seconds(code: Callable[[], Any]) -> float:
    """Returns the CPU time of one call."""
    start = time.process_time()
    code()
    return time.process_time() - start


def main(rounds: int) -> None:
    """Prints the table; the codes take turns, and each counts at its best."""
    codes: dict[str, Callable[[], Any]] = {"a dict loop": dict_loop, "in bulk": bulk}
    for name, trigger in TRIGGERS.items():
        codes[name] = lambda trigger=trigger: triggered(trigger)  # type: ignore[misc]
    codes["sessions, default"] = lambda: sessions(engine.DefaultTrigger())
    codes["sessions, repeatedly after 10"] = lambda: sessions(engine.Repeatedly(EVERY_TENTH))
    best = dict.fromkeys(codes, float("inf"))
    for _ in range(rounds):
        for name, code in codes.items():
            best[name] = min(best[name], seconds(code))
    print("| grouping | times a dict loop | ns per element |\n|---|---|---|")
    for name, took in best.items():
        ratio = took / best["a dict loop"]
        print(f"| {name} | {ratio:.1f} | {took / COUNT * 1e9:.0f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
