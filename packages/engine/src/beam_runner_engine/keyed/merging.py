"""Merging of session windows: overlapping windows of a key become one window.

Windows that only touch don't merge. The result depends only on the set of windows and not on their
order. Merging merged windows again has no effect.
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


def merge_overlapping_intervals(
    spans: Iterable[tuple[int, int, T]],
) -> Iterator[tuple[int, int, list[T]]]:
    """Yields merged intervals of overlapping `spans`, in ascending order, with the members of each
    merged interval.

    A span consists of a start, an exclusive end and a member. The cost is one sort.
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
    """Returns the merged window for each window of one key. A window without overlap maps to
    itself.

    The cost is one sort of the distinct windows.
    """
    merged: dict[IntervalWindow, IntervalWindow] = {}
    for start, end, members in merge_overlapping_intervals(
        (w.start, w.end, w) for w in dict.fromkeys(windows)
    ):
        merged.update(dict.fromkeys(members, IntervalWindow(start, end)))
    return merged


class SessionMerger:
    """Merger of session windows: a `WindowMerger` that needs no SDK."""

    def merge_windows(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> list[dict[Window, Window]]:
        """Returns, for each key, a mapping from each of the key's windows to its merged window."""
        answers: list[dict[Window, Window]] = []
        for windows in windows_of_keys:
            merged: dict[Window, Window] = {}
            intervals = [window for window in windows if isinstance(window, IntervalWindow)]
            for window, result in merge_sessions(intervals).items():
                merged[window] = result
            answers.append(merged)
        return answers


def select_merger(strategy: WindowingStrategy, custom: WindowMerger | None) -> WindowMerger | None:
    """Returns the merger for the windows of a strategy, or None if the windows don't merge.

    Args:
        strategy: the windowing strategy.
        custom: the caller's merger, which asks the SDK to merge custom windows.

    Raises:
        ValueError: If only the SDK can merge the windows and `custom` is None.
    """
    if not strategy.needs_merge:
        return None
    if isinstance(strategy.window_fn, Sessions):
        return SessionMerger()
    if custom is None:
        raise ValueError(
            f"Only the SDK can merge the windows of {strategy.window_fn}; "
            "pass a WindowMerger that asks the SDK"
        )
    return custom
