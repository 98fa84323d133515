"""Merging of session windows: which windows of one key become one.

Two windows belong together when they overlap; windows that only touch do not. The answer depends
on the set of windows alone, not on their order, and merging what is merged changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_engine.values.strategy import WindowingStrategy
from beam_runner_engine.values.window_fns import Sessions
from beam_runner_engine.values.windows import IntervalWindow, Window


def merge_sessions(windows: Iterable[IntervalWindow]) -> dict[IntervalWindow, IntervalWindow]:
    """Returns the merged window of each of one key's windows; a window that stays alone is its own.

    Costs one sort of the distinct windows.
    """
    merged: dict[IntervalWindow, IntervalWindow] = {}
    group: list[IntervalWindow] = []
    end = 0
    for window in sorted(set(windows), key=_bounds):
        if group and window.start >= end:
            _close(group, end, merged)
            group = []
        end = max(end, window.end) if group else window.end
        group.append(window)
    if group:
        _close(group, end, merged)
    return merged


def _bounds(window: IntervalWindow) -> tuple[int, int]:
    return window.start, window.end


def _close(
    group: list[IntervalWindow], end: int, merged: dict[IntervalWindow, IntervalWindow]
) -> None:
    result = IntervalWindow(group[0].start, end)
    for window in group:
        merged[window] = result


class SessionMerger:
    """Merges session windows; the `WindowMerger` that needs no SDK."""

    def merge(self, windows_of_keys: Sequence[Collection[Window]]) -> list[dict[Window, Window]]:
        """Returns, for each key's windows, the merged window of each of them."""
        answers: list[dict[Window, Window]] = []
        for windows in windows_of_keys:
            merged: dict[Window, Window] = {}
            intervals = [window for window in windows if isinstance(window, IntervalWindow)]
            for window, result in merge_sessions(intervals).items():
                merged[window] = result
            answers.append(merged)
        return answers


def merger_for(strategy: WindowingStrategy, custom: WindowMerger | None) -> WindowMerger | None:
    """Returns what merges the windows of a strategy, None if they don't merge.

    `custom` is the host's way to ask the SDK. Raises ValueError when it is needed and None.
    """
    if not strategy.merges:
        return None
    if isinstance(strategy.window_fn, Sessions):
        return SessionMerger()
    if custom is None:
        raise ValueError(
            f"the windows of {strategy.window_fn} merge in a way only the SDK knows, "
            "and the host gave no WindowMerger to ask it"
        )
    return custom
