"""Windows that only Python knows: windows with a custom coder, and merging windows."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.coders import Coder, StrUtf8Coder, TimestampCoder, TupleCoder
from apache_beam.transforms.window import BoundedWindow, NonMergingWindowFn, WindowFn
from apache_beam.utils.timestamp import Timestamp


class Colored(BoundedWindow):
    """A window with a color. Two windows with the same end can differ in color."""

    def __init__(self, end: Timestamp, color: str) -> None:
        super().__init__(end)
        self.color = color

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Colored) and (self.end, self.color) == (other.end, other.color)

    def __hash__(self) -> int:
        return hash((self.end, self.color))


class ColoredCoder(Coder):
    """A coder that reveals neither its length nor the end of the window."""

    _parts = TupleCoder([TimestampCoder(), StrUtf8Coder()])

    def encode(self, value: Any) -> bytes:
        encoded: bytes = self._parts.encode((value.end, value.color))
        return encoded

    def decode(self, encoded: bytes) -> Colored:
        return Colored(*self._parts.decode(encoded))

    def is_deterministic(self) -> bool:
        return True


def _parity(timestamp: Timestamp) -> str:
    return "even" if int(timestamp) % 2 == 0 else "odd"


class Fixed(NonMergingWindowFn):
    """Windows of 100 s: one for even timestamps and one for odd timestamps."""

    def assign(self, assign_context: Any) -> list[Any]:
        time = assign_context.timestamp
        return [Colored(Timestamp(int(time) // 100 * 100 + 100), _parity(time))]

    def get_window_coder(self) -> Coder:
        return ColoredCoder()


class Merging(WindowFn):
    """A window function that merges all windows of even timestamps per key, and no windows of odd
    timestamps.

    Args:
        ballast: text that makes the pickled function larger.
    """

    def __init__(self, ballast: str = "") -> None:
        self.ballast = ballast

    def assign(self, assign_context: Any) -> list[Any]:
        time = assign_context.timestamp
        return [Colored(time + 50, _parity(time))]

    def merge(self, merge_context: Any) -> None:
        evens = [window for window in merge_context.windows if window.color == "even"]
        if evens:
            merge_context.merge(evens, Colored(max(w.end for w in evens), "even"))

    def get_window_coder(self) -> Coder:
        return ColoredCoder()


class Refusing(Merging):
    """A window function that never merges."""

    def merge(self, merge_context: Any) -> None:
        raise ValueError("I do not merge")


def grouped_in(window_fn: WindowFn) -> Any:
    """Returns a function that builds a pipeline with a grouping in these windows."""

    def build(p: beam.Pipeline) -> None:
        pairs = p | beam.Create([("k", 1)]) | beam.WindowInto(window_fn)
        pairs | beam.GroupByKey() | beam.Map(str)

    return build


FIXED = grouped_in(Fixed())
MERGING = grouped_in(Merging())
REFUSING = grouped_in(Refusing())
