"""Merging of session windows: which windows of one key become one.

Two windows belong together when they overlap; windows that only touch do not. The answer depends
on the set of windows alone, not on their order, and merging what is merged changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TypeVar

from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.window_fns import Sessions
from beam_runner_model.windows import IntervalWindow, Window

from beam_runner_engine.keyed.ports import WindowMerger

T = TypeVar("T")
_BOUNDS = itemgetter(0, 1)


def sweep(spans: Iterable[tuple[int, int, T]]) -> Iterator[tuple[int, int, list[T]]]:
    """Puts spans of time together that overlap: a start, an end that is no part of it, and whose it
    is; for each result all of those. Ascending; costs one sort.
    """
    start = end = 0
    members: list[T] = []
    for begin, stop, member in sorted(spans, key=_BOUNDS):
        if members and begin < end:
            members.append(member)
            if stop > end:
                end = stop
        else:
            if members:
                yield start, end, members
            start, end, members = begin, stop, [member]
    if members:
        yield start, end, members


def merge_sessions(windows: Iterable[IntervalWindow]) -> dict[IntervalWindow, IntervalWindow]:
    """Returns the merged window of each of one key's windows; a window that stays alone is its own.

    Costs one sort of the distinct windows.
    """
    merged: dict[IntervalWindow, IntervalWindow] = {}
    for start, end, members in sweep((w.start, w.end, w) for w in dict.fromkeys(windows)):
        merged.update(dict.fromkeys(members, IntervalWindow(start, end)))
    return merged


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
