"""Compares what two pieces of code cost, on machines that do other things at the same time."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from operator import attrgetter

from beam_runner_engine.keyed.groups import Group


def cost_ratio(run: Callable[[], object], baseline: Callable[[], object], rounds: int = 9) -> float:
    """Returns how many times the CPU time of `baseline` one `run` takes, each at its best.

    They take turns, so that a slow spell of the machine meets both. The garbage collector goes
    through what they make, but not through what the process held before.
    """
    best = {run: float("inf"), baseline: float("inf")}
    gc.collect()
    gc.freeze()
    try:
        for _ in range(rounds):
            for code in best:
                start = time.process_time()
                code()
                best[code] = min(best[code], time.process_time() - start)
    finally:
        gc.unfreeze()
    return best[run] / best[baseline]


def read(groups: Iterable[Group]) -> int:
    """Takes each pane in its turn, as a host does, and returns how many elements are in them."""
    return sum(map(len, map(attrgetter("values"), groups)))
