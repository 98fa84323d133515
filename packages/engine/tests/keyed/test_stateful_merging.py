"""Tests of state, timers and buffered elements of keys whose windows merge."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs
import pytest
from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.window_coders import WindowCoder, encode_window
from beam_runner_model.window_fns import OpaqueWindows, Sessions
from beam_runner_model.windows import IntervalWindow, Window

from beam_runner_engine.keyed.merging import SessionMerger
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.state import BagState
from beam_runner_engine.keyed.stateful_records import (
    DueWork,
    FiredTimer,
    SortedElements,
    StatefulSpec,
)

from .stateful_host import KEY, Host, timer

SESSIONS = WindowingStrategy(Sessions(10), merge_status=MergeStatus.NEEDS_MERGE)
CUSTOM = attrs.evolve(
    SESSIONS, window_fn=OpaqueWindows("some:windows"), window_coder=WindowCoder.INTERVAL
)


def _session(start: int, end: int | None = None) -> bytes:
    return encode_window(IntervalWindow(start, start + 10 if end is None else end))


def _window_and_label(due: DueWork) -> tuple[bytes, int | str]:
    """Returns the window of due work, with the timestamp of elements or the tag of a timer."""
    if isinstance(due, SortedElements):
        return due.window, due.timestamp
    assert isinstance(due, FiredTimer)
    return due.timer.window, due.timer.tag


@pytest.mark.parametrize("commits", [False, True])
def test_merging_windows_moves_state_timers_and_elements(commits: bool) -> None:
    host = Host(StatefulSpec(SESSIONS, {"seen": BagState}, time_sorted_input=True))
    for start in (0, 15):
        host.admit(start, now=CurrentTimes(-1), window=_session(start))
        host.shard.get_state(BagState, "seen", KEY, _session(start)).add(b"%d" % start)
        host.shard.set_timer(timer(start + 9, window=_session(start)))
        host.shard.set_timer(timer(start + 9, f"only {start}", window=_session(start)))
        if commits:
            host.commit()
    merged = _session(0, 25)
    host.admit(8, 15, now=CurrentTimes(-1), window=_session(8))
    assert sorted(host.shard.get_state(BagState, "seen", KEY, merged).read()) == [b"0", b"15"]
    if commits:
        host.commit()
        assert host.summary.next_expiry == 24
    due = host.run(CurrentTimes(MAX_TIMESTAMP))
    assert [_window_and_label(each) for each in due] == [
        (merged, 0),
        (merged, 8),
        (merged, ""),
        (merged, "only 0"),
        (merged, 15),
        (merged, "only 15"),
    ]
    host.commit()
    assert host.store.copy_cells() == {}


def test_elements_that_are_not_late_get_their_merged_window() -> None:
    host = Host(StatefulSpec(SESSIONS))
    windows = [_session(0), _session(30), _session(8)]
    admitted = host.shard.accept_elements(
        [KEY] * 3, windows, [0, 30, 8], [b""] * 3, CurrentTimes(-1)
    )
    assert list(admitted.windows) == [_session(0, 18), _session(30), _session(0, 18)]


class _OnceEach(SessionMerger):
    """Merger of sessions that rejects duplicate windows."""

    def merge_windows(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> list[dict[Window, Window]]:
        for windows in windows_of_keys:
            assert len(windows) == len(set(windows)), "Beam's merge removes such a window twice"
        return super().merge_windows(windows_of_keys)


def test_window_merger_of_a_stateful_stage_gets_each_window_once() -> None:
    host = Host(StatefulSpec(CUSTOM), _OnceEach())
    for starts in ([20], [20, 12, 20]):
        windows = [_session(start) for start in starts]
        admitted = host.shard.accept_elements(
            [KEY] * len(starts), windows, starts, starts, CurrentTimes(-1)
        )
        host.commit()
    assert list(admitted.windows) == [_session(12, 30)] * 3


class _JoinAs:
    """Merger of all windows of a key, which takes the merged windows from a list."""

    def __init__(self, *names: Window) -> None:
        self._names = list(names)

    def merge_windows(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> list[dict[Window, Window]]:
        (windows,) = windows_of_keys
        name = self._names.pop(0)
        return [dict.fromkeys(windows, name)]


def test_window_removed_by_a_merge_and_returned_by_a_later_merge_is_current() -> None:
    """Uses a second merge whose result is a window that the first merge removed."""
    a, b, c = (IntervalWindow(start, 100) for start in (0, 10, 20))
    host = Host(StatefulSpec(CUSTOM, {"seen": BagState}), _JoinAs(a, b, a))
    windows = [encode_window(window) for window in (a, b, c)]
    admitted = host.shard.accept_elements([KEY] * 3, windows, [0] * 3, [0] * 3, CurrentTimes(-1))
    assert list(admitted.windows) == [encode_window(a)] * 3
