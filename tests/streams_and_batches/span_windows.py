"""Windows as data, and the window functions that Beam gets for them; times are in milliseconds."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import attrs
from apache_beam.coders import Coder
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
)
from apache_beam.utils.timestamp import Duration, Timestamp

GLOBAL = ("global",)
GLOBAL_END = 9223371950454775
"""The last millisecond of the global window."""
COMBINERS = {
    "end": TimestampCombiner.OUTPUT_AT_EOW,
    "earliest": TimestampCombiner.OUTPUT_AT_EARLIEST,
    "latest": TimestampCombiner.OUTPUT_AT_LATEST,
}
_MERGING = ("sessions", "spans", "blocks")


@attrs.frozen
class Windows:
    """A windowing strategy.

    Attributes:
        fn: kind of the windows and its parameters:

            - ``("global",)``
            - ``("fixed", size, offset)``
            - ``("sliding", size, period, offset)``
            - ``("sessions", gap)``
            - ``("spans", gap)``: merging windows of a user, whose length depends on the element.
            - ``("blocks", size)``: merging windows of a user that begin at multiples of the size.
              Many elements have equal windows.
        combiner: ``end``, ``earliest`` or ``latest``.
    """

    fn: tuple[Any, ...] = GLOBAL
    combiner: str = "end"

    @property
    def merge(self) -> bool:
        """Whether windows merge."""
        return self.fn[0] in _MERGING

    @property
    def has_times(self) -> bool:
        """Whether the results of a grouping have the same timestamps in all runners."""
        return self.fn != GLOBAL or self.combiner != "end"


SAFE = Windows(("fixed", 1000, 0))
"""The windows of an operation that can't group in the windows of its input."""


class _Merging(WindowFn):
    """Windows that merge if they overlap."""

    def merge(self, merge_context: WindowFn.MergeContext) -> None:
        """Merges all windows that overlap."""
        together: list[IntervalWindow] = []
        for window in sorted(merge_context.windows, key=lambda each: (each.start, each.end)):
            if together and window.start < max(each.end for each in together):
                together.append(window)
                continue
            _merge(merge_context, together)
            together = [window]
        _merge(merge_context, together)

    def get_window_coder(self) -> Coder:
        """Returns the coder of intervals."""
        return IntervalWindowCoder()


def _merge(context: WindowFn.MergeContext, windows: list[IntervalWindow]) -> None:
    if len(windows) > 1:
        end = max(window.end for window in windows)
        context.merge(windows, IntervalWindow(windows[0].start, end))


@attrs.define(eq=True, unsafe_hash=True)
class Spans(_Merging):
    """Windows from the element's timestamp on, of one to three gaps by the element's value."""

    gap: int

    def assign(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        """Returns the window of an element."""
        at = context.timestamp.micros // 1000
        return [_interval(at, at + self.gap * gaps_of(context.element[1]))]


@attrs.define(eq=True, unsafe_hash=True)
class Blocks(_Merging):
    """Windows of one to three blocks by the element's value, from the block of the timestamp on."""

    size: int

    def assign(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        """Returns the window of an element."""
        at = context.timestamp.micros // 1000
        start = at - at % self.size
        return [_interval(start, start + self.size * gaps_of(context.element[1]))]


def gaps_of(value: int) -> int:
    """Returns the length of the window of a value, in gaps or blocks."""
    return 1 + value % 3


def _interval(start: int, end: int) -> IntervalWindow:
    return IntervalWindow(_timestamp(start), _timestamp(end))


def _timestamp(milliseconds: int) -> Timestamp:
    return Timestamp(micros=1000 * milliseconds)


def _duration(milliseconds: int) -> Duration:
    return Duration(micros=1000 * milliseconds)


def window_fn(fn: tuple[Any, ...]) -> WindowFn:
    """Returns Beam's window function."""
    match fn:
        case ("global",):
            return GlobalWindows()
        case ("fixed", size, offset):
            return FixedWindows(_duration(size), _timestamp(offset))
        case ("sliding", size, period, offset):
            return SlidingWindows(_duration(size), _duration(period), _timestamp(offset))
        case ("sessions", gap):
            return Sessions(_duration(gap))
        case ("spans", gap):
            return Spans(gap)
        case ("blocks", size):
            return Blocks(size)
    raise ValueError(f"unknown windows {fn!r}")


def window_into(windows: Windows) -> beam.WindowInto:
    """Returns the transform that assigns these windows."""
    combiner = COMBINERS[windows.combiner]
    return beam.WindowInto(window_fn(windows.fn), timestamp_combiner=combiner)
