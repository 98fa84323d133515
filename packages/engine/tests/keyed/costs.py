"""Comparison of the CPU cost of two functions, robust against other load on the machine."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from operator import attrgetter

from beam_runner_engine.keyed.groups import WindowPane


def cost_ratio(run: Callable[[], object], baseline: Callable[[], object], rounds: int = 9) -> float:
    """Returns the ratio of the CPU times of `run` and `baseline`, each at its minimum over all
    rounds.

    Both functions run alternately, so that a slow period of the machine affects both. The garbage
    collector traverses their new objects, but not the objects that existed before.
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


def read(groups: Iterable[WindowPane]) -> int:
    """Reads all panes, as a caller of the engine does, and returns the number of elements in the
    panes.
    """
    return sum(map(len, map(attrgetter("values"), groups)))
