"""Operations on streams with late elements: groupings with triggers, and state that expires.

Their output depends on the order of arrival. ``pane_invariants`` has the invariants for any order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import trigger as triggers
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.utils.timestamp import Duration
from operations import Stream
from span_windows import window_fn

Trigger = tuple[Any, ...]
"""A trigger as data.

- ``("default",)``
- ``("count", n)``: repeatedly after n elements.
- ``("clock", seconds)``: repeatedly after a delay in processing time.
- ``("watermark", early, late)``: at the end of the window; early and late are one of the two before, or None.
"""


def panes(
    stream: Stream, fn: tuple[Any, ...], trigger: Trigger, lateness: int, accumulating: bool
) -> Stream:
    """Returns the sorted values of each pane."""
    mode = triggers.AccumulationMode
    windows = beam.WindowInto(
        window_fn(fn),
        trigger=_trigger(trigger),
        accumulation_mode=mode.ACCUMULATING if accumulating else mode.DISCARDING,
        allowed_lateness=Duration(micros=1000 * lateness),
    )
    grouped = stream.pairs().apply("Windows", windows).apply("Group", beam.GroupByKey())
    return grouped.apply("Sort", beam.MapTuple(_sorted))


def _trigger(trigger: Trigger) -> Any:
    match trigger:
        case ("watermark", early, late):
            return triggers.AfterWatermark(early and _once(early), late and _once(late))
        case ("default",):
            return triggers.DefaultTrigger()
    return triggers.Repeatedly(_once(trigger))


def _once(trigger: Trigger) -> Any:
    kind, parameter = trigger
    if kind == "count":
        return triggers.AfterCount(parameter)
    return triggers.AfterProcessingTime(parameter)


def admitted(stream: Stream, fn: tuple[Any, ...], lateness: int) -> Stream:
    """Returns the elements that a DoFn with state is called with."""
    windows = beam.WindowInto(window_fn(fn), allowed_lateness=Duration(micros=1000 * lateness))
    made = stream.pairs().apply("Windows", windows).apply("Admitted", beam.ParDo(Admitted()))
    return made


class Admitted(beam.DoFn):
    """Returns its input, and counts it in state."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(
        self, element: tuple[str, int], count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[tuple[str, int]]:
        count.write((count.read() or 0) + 1)
        yield element


def detour(stream: Stream, milliseconds: int) -> Stream:
    """Returns the elements, half of them behind a shuffle and a delay."""
    pairs = stream.pairs()
    odd = pairs.apply("Odd", beam.Filter(_is_odd)).apply("Reshuffle", beam.Reshuffle())
    slow = odd.apply("Wait", beam.Map(_wait, milliseconds))
    even = pairs.apply("Even", beam.Filter(_is_even))
    return attrs.evolve(pairs, pc=(even.pc, slow.pc) | f"{pairs.label}/Flatten" >> beam.Flatten())


TRIGGERED: dict[str, Callable[..., Stream]] = {
    "panes": panes,
    "admitted": admitted,
    "detour": detour,
}


def _is_odd(element: tuple[str, int]) -> bool:
    return element[1] % 2 == 1


def _is_even(element: tuple[str, int]) -> bool:
    return element[1] % 2 == 0


def _wait(element: tuple[str, int], milliseconds: int) -> tuple[str, int]:
    time.sleep(milliseconds / 1000)
    return element


def _sorted(key: str, values: Any) -> tuple[str, Any]:
    return key, tuple(sorted(values))
