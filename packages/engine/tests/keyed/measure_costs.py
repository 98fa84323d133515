"""Measurement of the cost of grouping, compared with a dict loop: `python measure_costs.py`.

The script prints ratios of CPU time, and fails if a ratio exceeds its limit. The input has 1,000 keys with 100 encoded elements each in one window. One bundle
processes the input up to the maximum timestamp: triggers get ten calls with ten elements of each
key, and sessions get one call.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import Any

from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.triggers import (
    AfterAny,
    AfterCount,
    AfterEach,
    AfterEndOfWindow,
    AfterProcessingTime,
    DefaultTrigger,
    Delay,
    Never,
    Repeatedly,
    Trigger,
)
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import FixedWindows, Sessions, assign_windows

from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import WindowPane, WindowPanes
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.testing.stores import MemoryCellStore

COUNT = 100_000
TEN_CALLS = [slice(start, start + COUNT // 10) for start in range(0, COUNT, COUNT // 10)]
ONE_CALL = [slice(COUNT)]
WINDOWS = FixedWindows(10_000)
KEYS = [b"key%d" % (number * 7919 % 1000) for number in range(COUNT)]
TIMES = [number % 10_000 for number in range(COUNT)]
COLUMN = [encode_window(assign_windows(WINDOWS, time)[0]) for time in TIMES]
VALUES = [b"value%d" % number for number in range(COUNT)]
SESSION_TIMES = [number // 1000 * 60 for number in range(COUNT)]
SESSIONS = [encode_window(assign_windows(Sessions(100), time)[0]) for time in SESSION_TIMES]
EVERY_TENTH = AfterCount(10)
IN_A_WHILE = AfterProcessingTime((Delay(5),))
TRIGGERS: dict[str, Trigger] = {
    "default": DefaultTrigger(),
    "never": Never(),
    "repeatedly after processing time": Repeatedly(IN_A_WHILE),
    "repeatedly after 10": Repeatedly(EVERY_TENTH),
    "after end of window, early after 10": AfterEndOfWindow(early=EVERY_TENTH),
    "repeatedly any of after 10, after processing time": Repeatedly(
        AfterAny((EVERY_TENTH, IN_A_WHILE))
    ),
    "repeatedly each of after 8, after 12": Repeatedly(AfterEach((AfterCount(8), AfterCount(12)))),
}

SESSION_TRIGGERS: dict[str, Trigger] = {
    "default": DefaultTrigger(),
    "repeatedly after 10": Repeatedly(EVERY_TENTH),
    "after end of window, early after 10": AfterEndOfWindow(early=EVERY_TENTH),
}


def dict_loop() -> Any:
    """Groups by key and window with plain dictionaries."""
    groups: defaultdict[tuple[bytes, bytes], list[bytes]] = defaultdict(list)
    for key, window, value in zip(KEYS, COLUMN, VALUES, strict=True):
        groups[key, window].append(value)
    return list(groups.items())


def triggered(trigger: Trigger) -> Any:
    """Groups with a trigger that is evaluated for each call of ten elements of a key."""
    strategy = WindowingStrategy(WINDOWS, trigger=trigger)
    return grouped(strategy, COLUMN, TIMES, TEN_CALLS)


def sessions(trigger: Trigger) -> Any:
    """Groups in sessions of a key each, which each element extends."""
    strategy = WindowingStrategy(
        Sessions(100), merge_status=MergeStatus.NEEDS_MERGE, trigger=trigger
    )
    return grouped(strategy, SESSIONS, SESSION_TIMES, ONE_CALL)


def grouped(
    strategy: WindowingStrategy, windows: list[bytes], times: list[int], calls: list[slice]
) -> int:
    """Groups the elements in these windows, in several calls."""
    grouper = TriggeredGrouper(strategy, MemoryCellStore())
    groups = WindowPanes()
    for some in calls:
        groups += grouper.process_elements(
            KEYS[some], windows[some], times[some], VALUES[some], CurrentTimes(0, 0, 0)
        )
    groups += grouper.advance_time(CurrentTimes(MAX_TIMESTAMP, 100))
    grouper.finish_bundle()
    return read(groups)


def read(groups: Iterable[WindowPane]) -> int:
    """Reads each pane, as a caller of the engine does, and returns the number of elements in all
    panes.
    """
    return sum(map(len, map(attrgetter("values"), groups)))


def seconds(code: Callable[[], Any]) -> float:
    """Returns the CPU time of a call in seconds."""
    start = time.process_time()
    code()
    return time.process_time() - start


def measured() -> dict[str, tuple[Callable[[], Any], float]]:
    """Returns the measured functions with their maximum cost, as a multiple of the cost of a Python
    loop over a dict.
    """
    codes: dict[str, tuple[Callable[[], Any], float]] = {
        "a dict loop": (dict_loop, 1),
    }
    for name, trigger in TRIGGERS.items():
        codes[name] = (partial(triggered, trigger), 10)
    for name, trigger in SESSION_TRIGGERS.items():
        codes[f"sessions, {name}"] = (partial(sessions, trigger), 10)
    return codes


def main(rounds: int) -> int:
    """Prints the table. The functions run alternately, and the minimum time counts. Returns 1 if a
    function exceeds its limit, otherwise 0.
    """
    codes = measured()
    best = dict.fromkeys(codes, float("inf"))
    for _ in range(rounds):
        for name, (code, _) in codes.items():
            best[name] = min(best[name], seconds(code))
    ratios = {name: took / best["a dict loop"] for name, took in best.items()}
    print("| grouping | times a dict loop | at most | ns per element |\n|---|---|---|---|")
    for name, ratio in ratios.items():
        print(f"| {name} | {ratio:.1f} | {codes[name][1]} | {best[name] / COUNT * 1e9:.0f} |")
    dear = [name for name, ratio in ratios.items() if ratio > codes[name][1]]
    for name in dear:
        print(f"Too dear: {name}, {ratios[name]:.2f} times a dict loop.")
    return int(bool(dear))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7))
