"""Tests of bulk grouping: contract, merging of windows, and cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import pytest
from beam_runner_model.panes import ONLY_FIRING, encode_pane
from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.triggers import (
    AfterCount,
    AfterEndOfWindow,
    DefaultTrigger,
    Never,
    Trigger,
)
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import (
    FixedWindows,
    GlobalWindows,
    OpaqueWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
    assign_windows,
)
from beam_runner_model.windows import IntervalWindow, OpaqueWindow, Window
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.keyed.bulk import create_bulk_grouper
from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import Group
from beam_runner_engine.keyed.now import Now
from beam_runner_engine.testing.bulk_contract import BulkCase, check_bulk_grouper, create_bulk_cases
from beam_runner_engine.testing.stores import MemoryStore

from .costs import cost_ratio


@pytest.mark.parametrize("case", create_bulk_cases(), ids=lambda case: case.name)
def test_bulk_grouper_satisfies_the_contract(case: BulkCase) -> None:
    check_bulk_grouper(create_bulk_grouper, case)


def test_bulk_contract_rejects_missing_groups() -> None:
    case = next(case for case in create_bulk_cases() if case.expected)
    with pytest.raises(AssertionError, match="groups missing"):
        check_bulk_grouper(
            create_bulk_grouper, BulkCase(case.name, case.strategy, (), case.expected)
        )


def test_repeating_trigger_raises_value_error() -> None:
    with pytest.raises(ValueError, match="more than once"):
        create_bulk_grouper(WindowingStrategy(trigger=AfterCount(2)))


@given(
    st.sampled_from([FixedWindows(10), SlidingWindows(10, 4), Sessions(3), GlobalWindows()]),
    st.sampled_from(
        [DefaultTrigger(), Never(), AfterEndOfWindow(), AfterEndOfWindow(late=AfterCount(2))]
    ),
    st.sampled_from(TimestampCombiner),
    st.sampled_from([0, 7]),
    st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.integers(0, 40)), max_size=20),
)
def test_bulk_grouping_equals_triggered_grouping_of_bounded_input(
    window_fn: WindowFn,
    trigger: Trigger,
    combiner: TimestampCombiner,
    lateness: int,
    elements: list[tuple[bytes, int]],
) -> None:
    merges = isinstance(window_fn, Sessions)
    strategy = WindowingStrategy(
        window_fn,
        merge_status=MergeStatus.NEEDS_MERGE if merges else MergeStatus.NON_MERGING,
        trigger=trigger,
        timestamp_combiner=combiner,
        allowed_lateness=lateness,
    )
    rows = [
        (key, encode_window(window), time, number)
        for number, (key, time) in enumerate(elements)
        for window in assign_windows(window_fn, time)
    ]
    keys, windows, times, values = zip(*rows, strict=True) if rows else ((), (), (), ())
    bulk = create_bulk_grouper(strategy)
    bulk.add(keys, windows, times, values)
    triggered = TriggeredGrouper(strategy, MemoryStore())
    groups = triggered.process(keys, windows, times, values, Now())
    groups += triggered.advance(Now(MAX_TIMESTAMP))
    assert sorted(_comparable(group) for group in groups) == sorted(
        _comparable(group) for group in bulk.groups()
    )


def _comparable(group: Group) -> tuple[object, ...]:
    return (group.key, group.window, group.timestamp, sorted(group.values), encode_pane(group.pane))


CUSTOM = WindowingStrategy(OpaqueWindows("some:fn"), merge_status=MergeStatus.NEEDS_MERGE)


class _EvenMerger:
    """Merger that merges all windows of a key with an even end into a window that ends at 100."""

    def __init__(self) -> None:
        self.calls = 0

    def merge(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> Sequence[Mapping[Window, Window]]:
        self.calls += 1
        return [
            {w: OpaqueWindow(b"even", 100) for w in windows if w.max_timestamp() % 2 == 0}
            for windows in windows_of_keys
        ]


def test_custom_windows_are_merged_in_one_call() -> None:
    merger = _EvenMerger()
    grouper = create_bulk_grouper(CUSTOM, merger)
    windows = [encode_window(OpaqueWindow(b"w", latest)) for latest in (2, 3, 4)]
    grouper.add([b"a"] * 3 + [b"b"], [*windows, windows[1]], [0, 0, 0, 0], [b"1", b"2", b"3", b"4"])
    even = encode_window(OpaqueWindow(b"even", 100))
    assert list(grouper.groups()) == [
        Group(b"a", even, 100, ONLY_FIRING, [b"1", b"3"]),
        Group(b"a", windows[1], 3, ONLY_FIRING, [b"2"]),
        Group(b"b", windows[1], 3, ONLY_FIRING, [b"4"]),
    ]
    assert merger.calls == 1


def test_custom_windows_without_a_merger_raise_value_error() -> None:
    with pytest.raises(ValueError, match="pass a WindowMerger"):
        create_bulk_grouper(CUSTOM)


def test_columns_of_different_lengths_raise_value_error() -> None:
    with pytest.raises(ValueError, match="1 keys, 0 windows, 1 timestamps, 1 values"):
        create_bulk_grouper(WindowingStrategy()).add([b"a"], [], [1], [b""])


@pytest.mark.parametrize("windows", ["one window", "many windows"])
def test_bulk_grouping_costs_at_most_1_5_dict_loops(windows: str) -> None:
    count = 100_000
    keys = [b"key%d" % (i * 7919 % 1000) for i in range(count)]
    spread = 1 if windows == "one window" else 20
    some = [encode_window(IntervalWindow(i * 10, i * 10 + 10)) for i in range(spread)]
    column = [some[i * 31 % spread] for i in range(count)]
    times = list(range(count))
    values = [b"v%d" % i for i in range(count)]

    def plain() -> list[object]:
        groups: defaultdict[tuple[bytes, bytes], list[bytes]] = defaultdict(list)
        for key, window, value in zip(keys, column, values, strict=True):
            groups[key, window].append(value)
        return list(groups.items())

    def ours() -> list[Group]:
        strategy = WindowingStrategy(FixedWindows(10))
        grouper = create_bulk_grouper(strategy)
        grouper.add(keys, column, times, values)
        return list(grouper.groups())

    assert cost_ratio(ours, plain) <= 1.5
