"""Windows: the finite parts of event time that elements are grouped in.

A window is known by value: equal windows are interchangeable, as dictionary keys too.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from beam_runner_model.times import END_OF_GLOBAL_WINDOW, MIN_TIMESTAMP, Timestamp


@attrs.frozen
class GlobalWindow:
    """The one window that holds all of event time; use the constant `GLOBAL_WINDOW`."""

    def max_timestamp(self) -> Timestamp:
        """Returns the last timestamp (ms) inside the window."""
        return END_OF_GLOBAL_WINDOW

    def __reduce__(self) -> str:
        return "GLOBAL_WINDOW"


GLOBAL_WINDOW = GlobalWindow()
"""The only instance of `GlobalWindow` that is needed; pickling keeps it the only one."""


@attrs.frozen(order=True, cache_hash=True)
class IntervalWindow:
    """The window `[start, end)` in milliseconds: a fixed, sliding or session window."""

    start: Timestamp
    end: Timestamp

    def max_timestamp(self) -> Timestamp:
        """Returns the last timestamp (ms) inside the window, which is `end - 1`."""
        return self.end - 1


@attrs.frozen(order=True)
class OpaqueWindow:
    """A window of a kind that the engine can't look into.

    `encoded` is the window as its own coder writes it; `latest` the last timestamp (ms) inside it.
    Both come from `beam:coder:custom_window:v1`, which exists so that runners can handle windows
    they know nothing else about.
    """

    encoded: bytes
    latest: Timestamp

    def max_timestamp(self) -> Timestamp:
        """Returns the last timestamp (ms) inside the window."""
        return self.latest


Window: TypeAlias = GlobalWindow | IntervalWindow | OpaqueWindow


def within_time(window: Window) -> Window:
    """Returns the window without what of it is before all time, where nothing can be.

    The window of ten seconds that holds `MIN_TIMESTAMP` begins 5,225 ms before it. Beam's Python
    SDK leaves these out when it encodes a window, its Java SDK does not, so windows that come from
    different places are compared in this form.
    """
    if isinstance(window, IntervalWindow) and window.start < MIN_TIMESTAMP:
        return IntervalWindow(MIN_TIMESTAMP, window.end)
    return window
