"""Windows with a coder that only their own SDK can read, as some window functions have."""

from __future__ import annotations

from typing import Any

from apache_beam import coders
from apache_beam.coders import coders as beam_coders
from apache_beam.transforms import window
from tiny_host import pickle_by_value


class NamedWindow(window.IntervalWindow):
    """A window that is encoded as text."""


class NamedWindowCoder(beam_coders.FastCoder):
    def _create_impl(self) -> Any:
        return beam_coders.coder_impl.CallbackCoderImpl(
            lambda each: f"{each.start.micros}/{each.end.micros}".encode(),
            lambda data: NamedWindow(*(int(part) / 1_000_000 for part in data.split(b"/"))),
        )

    def is_deterministic(self) -> bool:
        return True


class NamedWindows(window.NonMergingWindowFn):
    """A window function with windows of 60 s that start every ``period`` seconds."""

    def __init__(self, period: int = 60) -> None:
        self.period = period

    def assign(self, context: Any) -> list[NamedWindow]:
        last = context.timestamp.micros // 1_000_000 // self.period * self.period
        return [NamedWindow(start, start + 60) for start in range(last, last - 60, -self.period)]

    def get_window_coder(self) -> coders.Coder:
        return NamedWindowCoder()


pickle_by_value(__name__)
