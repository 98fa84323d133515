"""Windows: finite intervals of event time in which elements are grouped.

Windows compare by value, so equal windows are interchangeable, also as dictionary keys.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from beam_runner_model.times import END_OF_GLOBAL_WINDOW, MIN_TIMESTAMP, Timestamp


@attrs.frozen
class GlobalWindow:
    """Window that covers all of event time. Use the constant `GLOBAL_WINDOW`."""

    def max_timestamp(self) -> Timestamp:
        """Returns the last timestamp (ms) in the window."""
        return END_OF_GLOBAL_WINDOW

    def __reduce__(self) -> str:
        return "GLOBAL_WINDOW"


GLOBAL_WINDOW = GlobalWindow()
"""Only instance of `GlobalWindow`; unpickling returns the same instance."""


@attrs.frozen(order=True, cache_hash=True)
class IntervalWindow:
    """Window `[start, end)` in milliseconds: a fixed, sliding or session window."""

    start: Timestamp
    end: Timestamp

    def max_timestamp(self) -> Timestamp:
        """Returns the last timestamp (ms) in the window, which is `end - 1`."""
        return self.end - 1


@attrs.frozen(order=True)
class OpaqueWindow:
    """Window of a custom type that the engine can't decode, from `beam:coder:custom_window:v1`.

    Attributes:
        encoded: the window in the encoding of its coder.
        latest: the last timestamp (ms) in the window.
    """

    encoded: bytes
    latest: Timestamp

    def max_timestamp(self) -> Timestamp:
        """Returns the last timestamp (ms) in the window."""
        return self.latest


Window: TypeAlias = GlobalWindow | IntervalWindow | OpaqueWindow


def clip_window_to_time_bounds(window: Window) -> Window:
    """Returns the window without the part before `MIN_TIMESTAMP`, in which no element can be.

    For example, the window of 10 s that contains `MIN_TIMESTAMP` starts 5,225 ms earlier. Beam's
    Python SDK omits this part when it encodes a window, and the Java SDK doesn't. Windows from
    different SDKs are therefore compared in this form.
    """
    if isinstance(window, IntervalWindow) and window.start < MIN_TIMESTAMP:
        return IntervalWindow(MIN_TIMESTAMP, window.end)
    return window
