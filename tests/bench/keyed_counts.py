"""Stream of numbers that are counted by key in state: source and count as Beam transforms.

The source behaves like a source that polls a queue: it emits arrived numbers, and defers after two
seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.transforms import userstate
from apache_beam.utils.timestamp import Duration

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from offsets import Offsets

KEYS = 100
PAUSE = 0.02
"""In seconds, between two numbers of a source that waits for them."""
WARM = 250
"""From this number on, the fifth second, it counts how late numbers are."""
_CALL_SECONDS = 2.0

Counted = tuple[int, float, int]
"""Number, emission time in seconds since 1970, and count of its key so far."""


class Poll(beam.DoFn):
    """DoFn that emits numbers with their keys and the time, one after each pause; without a pause, all at once."""

    def __init__(self, pause: float) -> None:
        self._pause = pause

    @beam.DoFn.unbounded_per_element()
    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Offsets())
    ) -> Iterator[tuple[int, tuple[int, float]]]:
        until = time.monotonic() + _CALL_SECONDS
        number = tracker.current_restriction().start
        while time.monotonic() < until:
            if not tracker.try_claim(number):
                return
            yield number % KEYS, (number, time.time())
            number += 1
            if self._pause:
                time.sleep(self._pause)
        tracker.defer_remainder(Duration(0))


class Count(beam.DoFn):
    """Counts the numbers of a key."""

    COUNT = userstate.ReadModifyWriteStateSpec("count", coders.VarIntCoder())

    def process(
        self, pair: tuple[int, tuple[int, float]], count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[Counted]:
        number, given = pair[1]
        so_far = (count.read() or 0) + 1
        count.write(so_far)
        yield number, given, so_far


def counted(pipeline: beam.Pipeline, elements: int, pause: float) -> beam.PCollection:
    """Returns the stream, as :data:`Counted`."""
    poll = beam.ParDo(Poll(pause)).with_output_types(tuple[int, tuple[int, float]])
    return pipeline | beam.Create([elements]) | poll | beam.ParDo(Count())


def of_key(key: int, elements: int) -> int:
    """Returns the final count of a key."""
    return len(range(key, elements, KEYS))
