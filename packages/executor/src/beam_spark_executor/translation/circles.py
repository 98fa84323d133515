"""Fuses without making stages that wait for each other: where fusion does, less is fused.

Beam's greedy fusion looks at a producer and a consumer at a time. Of two transforms of which each has what
the other one reads as its side input it makes two stages, and each waits for the side input that the
other one makes on its way. The transforms with side inputs in such a circle must begin stages of their
own then: a stage waits for nothing but what its first transform reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any


def fuse_without_circles(
    fuse: Callable[[Sequence[Any], Any], Iterable[Any]], stages: Iterable[Any], context: Any
) -> Iterable[Any]:
    """A phase that fuses.

    Args:
        fuse: Beam's phase.
        stages: Beam's, of one transform each.
        context: Beam's.
    """
    stages = list(stages)
    follows = [stage.must_follow for stage in stages]
    while True:
        fused = list(fuse(stages, context))
        waiting = {t.unique_name for stage in _circle(fused) for t in stage.transforms}
        begin = [
            stage
            for stage in stages
            if not stage.forced_root
            and any(stage.side_inputs())
            and any(t.unique_name in waiting for t in stage.transforms)
        ]
        if not begin:
            return fused
        for stage in begin:
            stage.forced_root = True
        for stage, must_follow in zip(stages, follows, strict=True):
            stage.must_follow = must_follow


def _circle(stages: Iterable[Any]) -> Sequence[Any]:
    """Some stages that wait for each other; empty if there are none."""
    try:
        TopologicalSorter({stage: stage.must_follow for stage in stages}).prepare()
    except CycleError as error:
        circle: Sequence[Any] = error.args[1]
        return circle
    return ()
