"""Merging of session windows: which windows of one key become one.

Two windows belong together when they overlap; windows that only touch do not. The answer depends on the set of
windows alone, not on their order, and merging what is merged changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from beam_runner_engine.values.windows import IntervalWindow


def merge_sessions(windows: Iterable[IntervalWindow]) -> dict[IntervalWindow, IntervalWindow]:
    """Returns the merged window of each of one key's windows; a window that stays alone is its own.

    Costs one sort of the distinct windows.
    """
    merged: dict[IntervalWindow, IntervalWindow] = {}
    group: list[IntervalWindow] = []
    end = 0
    for window in sorted(set(windows)):
        if group and window.start >= end:
            _close(group, end, merged)
            group = []
        end = max(end, window.end) if group else window.end
        group.append(window)
    if group:
        _close(group, end, merged)
    return merged


def _close(
    group: list[IntervalWindow], end: int, merged: dict[IntervalWindow, IntervalWindow]
) -> None:
    result = IntervalWindow(group[0].start, end)
    for window in group:
        merged[window] = result
