"""Windows of all kinds, as data and as Beam's window functions."""

from __future__ import annotations

import random
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.coders import Coder
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms import trigger
from apache_beam.transforms.window import (
    BoundedWindow,
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
)
from apache_beam.utils.timestamp import Timestamp

GLOBAL = ("global",)
SAFE = ("fixed", 10, 0)
"""Windows of a step that doesn't support the windows of its input."""
COMBINERS = {
    "end": TimestampCombiner.OUTPUT_AT_EOW,
    "earliest": TimestampCombiner.OUTPUT_AT_EARLIEST,
    "latest": TimestampCombiner.OUTPUT_AT_LATEST,
}
TRIGGERS = {
    "default": None,
    "late": trigger.AfterWatermark(late=trigger.AfterCount(1)),
    "watermark": trigger.AfterWatermark(),
}


class ByElement(NonMergingWindowFn):
    """Windows of ten seconds for pairs, and of twenty seconds for other elements; Python assigns each element."""

    def assign(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        size = 10 if type(context.element) is tuple else 20
        second = context.timestamp.micros // 1_000_000
        start = second - second % size
        return [IntervalWindow(start, start + size)]

    def get_window_coder(self) -> Coder:
        return IntervalWindowCoder()


class Tens(BoundedWindow):
    """Ten seconds, by their number and a parity."""

    def __init__(self, number: int, odd: bool) -> None:
        super().__init__(Timestamp(10 * (number + 1)))
        self.number = number
        self.odd = odd

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tens) and self.number == other.number and self.odd == other.odd

    def __hash__(self) -> int:
        return hash((self.number, self.odd))

    def __repr__(self) -> str:
        return f"Tens({self.number}, {self.odd})"


class TensCoder(Coder):
    """Nothing but Python can read it."""

    def encode(self, value: Tens) -> bytes:
        return f"{value.number} {value.odd}".encode()

    def decode(self, encoded: bytes) -> Tens:
        number, odd = encoded.split()
        return Tens(int(number), odd == b"True")

    def is_deterministic(self) -> bool:
        return True


class Custom(NonMergingWindowFn):
    """Ten seconds; of even seconds two windows, so that an element may be in several."""

    def assign(self, context: WindowFn.AssignContext) -> list[Tens]:
        second = context.timestamp.micros // 1_000_000
        number = second // 10
        return [Tens(number, True)] if second % 2 else [Tens(number, False), Tens(number, True)]

    def get_window_coder(self) -> Coder:
        return TensCoder()


class Some(NonMergingWindowFn):
    """Windows of one second; elements of every third and fourth second are in no window."""

    def assign(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        second = context.timestamp.micros // 1_000_000
        return [IntervalWindow(second, second + 1)] if second % 4 < 2 else []

    def get_window_coder(self) -> Coder:
        return IntervalWindowCoder()


@attrs.frozen
class Windows:
    """A windowing strategy as data."""

    fn: tuple[Any, ...] = GLOBAL
    combiner: str = "end"
    trigger: str = "default"
    accumulating: bool = False
    lateness: int = 0

    @property
    def merging(self) -> bool:
        return self.fn[0] == "sessions"


def random_windows(rng: random.Random) -> dict[str, Any]:
    """Returns the arguments of a step that assigns windows."""
    size = rng.choice([1, 3, 10])
    fn = rng.choice(
        [
            GLOBAL,
            ("fixed", size, rng.choice([0, 0, 1])),
            ("fixed", 10, 0),
            ("sliding", size, rng.choice([1, 2, 5, 10]), rng.choice([0, 0, 1])),
            ("sliding", 10, 5, 0),
            ("sessions", size),
            ("sessions", 5),
            ("custom",),
            ("by element",),
            ("some",),
        ]
    )
    return {
        "fn": fn,
        "combiner": rng.choice(["end", "end", *COMBINERS]),
        "trigger": rng.choice(["default", "default", *TRIGGERS]),
        "accumulating": rng.random() < 0.2,
        "lateness": rng.choice([0, 0, 0, 10, 1_000_000]),
    }


def window_fn(fn: tuple[Any, ...]) -> WindowFn:
    """Returns Beam's window function."""
    match fn:
        case ("global",):
            return GlobalWindows()
        case ("fixed", size, offset):
            return FixedWindows(size, offset % size)
        case ("sliding", size, period, offset):
            return SlidingWindows(size, period, offset % period)
        case ("sessions", gap):
            return Sessions(gap)
        case ("custom",):
            return Custom()
        case ("by element",):
            return ByElement()
        case ("some",):
            return Some()
    raise ValueError(f"no windows {fn!r}")


def window_into(windows: Windows) -> beam.WindowInto:
    """Returns the transform that assigns these windows."""
    mode = trigger.AccumulationMode
    return beam.WindowInto(
        window_fn(windows.fn),
        trigger=TRIGGERS[windows.trigger],
        accumulation_mode=mode.ACCUMULATING if windows.accumulating else mode.DISCARDING,
        timestamp_combiner=COMBINERS[windows.combiner],
        allowed_lateness=windows.lateness,
    )
