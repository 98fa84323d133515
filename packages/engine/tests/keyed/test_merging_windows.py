"""Tests of custom windows, which the caller of the engine merges."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs
import pytest
from beam_runner_model import triggers as t
from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.window_coders import WindowCoder, decode_window, encode_window
from beam_runner_model.window_fns import OpaqueWindows
from beam_runner_model.windows import IntervalWindow, OpaqueWindow, Window

from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import WindowPane
from beam_runner_engine.keyed.merging import SessionMerger
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.testing.stores import MemoryCellStore

from .triggering import KEY

MERGING = WindowingStrategy(OpaqueWindows("some:windows"), merge_status=MergeStatus.NEEDS_MERGE)


class _JoinAll:
    """Merger that merges all windows of a key into the window that ends last."""

    def merge_windows(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> Sequence[Mapping[Window, Window]]:
        answers = []
        for windows in windows_of_keys:
            last = max(window.max_timestamp() for window in windows)
            answers.append({w: OpaqueWindow(b"all", last) for w in windows})
        return answers


def test_custom_windows_are_merged_by_the_merger_of_the_caller() -> None:
    strategy = WindowingStrategy(
        OpaqueWindows("some:windows"),
        merge_status=MergeStatus.NEEDS_MERGE,
        trigger=t.AfterEndOfWindow(early=t.AfterCount(3)),
    )
    store = MemoryCellStore()
    out: list[WindowPane] = []
    for value, latest in enumerate((5, 9, 7, 8)):
        grouper = TriggeredGrouper(strategy, store, _JoinAll())
        data = encode_window(OpaqueWindow(b"w%d" % value, latest))
        out += grouper.process_elements([KEY], [data], [1], [value], CurrentTimes())
        store.commit_deltas(grouper.finish_bundle().deltas)
    grouper = TriggeredGrouper(strategy, store, _JoinAll())
    out += grouper.advance_time(CurrentTimes(10))
    assert [decode_window(strategy.window_coder, group.window) for group in out] == [
        OpaqueWindow(b"all", 9)
    ] * 2
    assert [sorted(group.values) for group in out] == [[0, 1, 2], [3]]


def test_single_custom_window_can_be_replaced_by_the_merger() -> None:
    grouper = TriggeredGrouper(MERGING, MemoryCellStore(), _JoinAll())
    for value, latest in enumerate((5, 9)):
        data = encode_window(OpaqueWindow(b"w", latest))
        assert grouper.process_elements([KEY], [data], [1], [value], CurrentTimes()) == []
    (group,) = grouper.advance_time(CurrentTimes(10))
    assert sorted(group.values) == [0, 1]
    assert not grouper.finish_bundle().summary.holds


class _BeamMerger(SessionMerger):
    """Merger that rejects duplicate windows, because Beam's `WindowFn.merge` would remove such a
    window twice.
    """

    def merge_windows(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> list[dict[Window, Window]]:
        for windows in windows_of_keys:
            assert len(windows) == len(set(windows))
        return super().merge_windows(windows_of_keys)


def _five_long(time: int) -> bytes:
    return encode_window(IntervalWindow(time, time + 5))


def test_open_custom_window_is_passed_to_the_merger_once() -> None:
    strategy = attrs.evolve(MERGING, window_coder=WindowCoder.INTERVAL)
    store, out = MemoryCellStore(), list[WindowPane]()
    for times in ([20], [20, 18]):
        grouper = TriggeredGrouper(strategy, store, _BeamMerger())
        windows = [_five_long(time) for time in times]
        out += grouper.process_elements([KEY] * len(times), windows, times, times, CurrentTimes())
        store.commit_deltas(grouper.finish_bundle().deltas)
    out += TriggeredGrouper(strategy, store, _BeamMerger()).advance_time(CurrentTimes(100))
    assert [(group.window, sorted(group.values)) for group in out] == [
        (encode_window(IntervalWindow(18, 25)), [18, 20, 20])
    ]


def test_custom_windows_without_a_merger_raise_value_error() -> None:
    strategy = WindowingStrategy(OpaqueWindows("some:fn"), merge_status=MergeStatus.NEEDS_MERGE)
    with pytest.raises(ValueError, match="pass a WindowMerger"):
        TriggeredGrouper(strategy, MemoryCellStore())
