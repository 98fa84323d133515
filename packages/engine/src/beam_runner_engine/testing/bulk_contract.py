"""Contract tests for bulk groupers, as test cases for any implementation.

An example::

    @pytest.mark.parametrize("case", create_bulk_cases(), ids=lambda case: case.name)
    def test_my_grouper(case):
        check_bulk_grouper(MyGrouper, case)

Small cases list their expected groups. The expected groups of large cases follow from the
definition: elements of one key with the same merged window form a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import attrs
from beam_runner_model.panes import ONLY_FIRING
from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.times import Timestamp
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import (
    FixedWindows,
    OpaqueWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
    assign_windows,
)
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow, OpaqueWindow, Window

from beam_runner_engine.keyed.groups import WindowPane
from beam_runner_engine.keyed.ports import BulkGrouper

Row: TypeAlias = tuple[bytes, Window, Timestamp, bytes]
ExpectedGroup: TypeAlias = tuple[bytes, Window, Timestamp, tuple[bytes, ...]]


@attrs.frozen
class BulkGrouperCase:
    """Test case: batches of rows (key, window, timestamp in ms, value) and the expected groups."""

    name: str
    strategy: WindowingStrategy
    batches: tuple[tuple[Row, ...], ...]
    expected: tuple[ExpectedGroup, ...]


def check_bulk_grouper(
    make: Callable[[WindowingStrategy], BulkGrouper], case: BulkGrouperCase
) -> None:
    """Runs one test case with the grouper that `make(strategy)` returns.

    Raises:
        AssertionError: If groups are missing or unexpected.
    """
    grouper = make(case.strategy)
    for batch in case.batches:
        grouper.add_elements(
            [row[0] for row in batch],
            [encode_window(row[1]) for row in batch],
            [row[2] for row in batch],
            [row[3] for row in batch],
        )
    got = sorted(_to_tuple(group) for group in grouper.build_groups())
    expected = sorted(
        _to_tuple(WindowPane(key, encode_window(window), timestamp, ONLY_FIRING, values))
        for key, window, timestamp, values in case.expected
    )
    if got != expected:
        missing = [group for group in expected if group not in got]
        extra = [group for group in got if group not in expected]
        raise AssertionError(
            f"{case.name}: groups missing: {missing[:5]}; not expected: {extra[:5]}; "
            f"{len(got)} groups instead of {len(expected)}"
        )


def create_bulk_cases() -> tuple[BulkGrouperCase, ...]:
    """Returns all test cases. The windowing strategies of the cases fire each window once, and need
    no SDK.
    """
    return (*_create_explicit_cases(), *_create_computed_cases())


def _to_tuple(group: WindowPane) -> tuple[Any, ...]:
    pane = group.pane
    pane_values = (pane.is_first, pane.is_last, pane.timing, pane.index, pane.nonspeculative_index)
    return (group.key, group.window, group.timestamp, tuple(group.values), pane_values)


def _create_explicit_cases() -> Iterable[BulkGrouperCase]:
    end = GLOBAL_WINDOW.max_timestamp()
    one, two = IntervalWindow(0, 10), IntervalWindow(10, 20)
    yield BulkGrouperCase("no data", WindowingStrategy(), ((), ()), ())
    yield BulkGrouperCase(
        "arrival order over batches; empty keys and values; equal values stay",
        WindowingStrategy(),
        (
            ((b"a", GLOBAL_WINDOW, 3, b"z"), (b"", GLOBAL_WINDOW, 1, b"")),
            ((b"a", GLOBAL_WINDOW, 2, b"y"), (b"a", GLOBAL_WINDOW, 2, b"y")),
        ),
        ((b"a", GLOBAL_WINDOW, end, (b"z", b"y", b"y")), (b"", GLOBAL_WINDOW, end, (b"",))),
    )
    rows = ((b"a", one, 3, b"1"), (b"a", two, 12, b"2"), (b"b", one, 4, b"3"), (b"a", one, 1, b"4"))
    for combiner, times in (
        (TimestampCombiner.END_OF_WINDOW, (9, 19, 9)),
        (TimestampCombiner.EARLIEST, (1, 12, 4)),
        (TimestampCombiner.LATEST, (3, 12, 4)),
    ):
        yield BulkGrouperCase(
            f"fixed windows, timestamps {combiner.value}",
            WindowingStrategy(FixedWindows(10), timestamp_combiner=combiner, allowed_lateness=7),
            (rows[:1], rows[1:]),
            (
                (b"a", one, times[0], (b"1", b"4")),
                (b"a", two, times[1], (b"2",)),
                (b"b", one, times[2], (b"3",)),
            ),
        )
    yield from _create_merging_cases()
    custom = OpaqueWindow(b"\x00w", 77)
    yield BulkGrouperCase(
        "windows only the SDK knows",
        WindowingStrategy(OpaqueWindows("some:windows")),
        (((b"a", custom, 3, b"1"), (b"a", OpaqueWindow(b"v", 77), 4, b"2")),),
        ((b"a", custom, 77, (b"1",)), (b"a", OpaqueWindow(b"v", 77), 77, (b"2",))),
    )


def _create_merging_cases() -> Iterable[BulkGrouperCase]:
    """Yields cases with sessions of 5 ms: 1-6 and 4-9 overlap, 9-14 only touches, and a second key
    merges nothing.
    """
    rows: tuple[Row, ...] = (
        (b"a", IntervalWindow(4, 9), 4, b"1"),
        (b"a", IntervalWindow(9, 14), 9, b"2"),
        (b"b", IntervalWindow(6, 11), 6, b"3"),
        (b"a", IntervalWindow(1, 6), 1, b"4"),
    )
    merged = IntervalWindow(1, 9)
    for combiner, times in (
        (TimestampCombiner.END_OF_WINDOW, (8, 13, 10)),
        (TimestampCombiner.EARLIEST, (1, 9, 6)),
        (TimestampCombiner.LATEST, (4, 9, 6)),
    ):
        expected: tuple[ExpectedGroup, ...] = (
            (b"a", merged, times[0], (b"1", b"4")),
            (b"a", IntervalWindow(9, 14), times[1], (b"2",)),
            (b"b", IntervalWindow(6, 11), times[2], (b"3",)),
        )
        strategy = WindowingStrategy(
            Sessions(5), merge_status=MergeStatus.NEEDS_MERGE, timestamp_combiner=combiner
        )
        yield BulkGrouperCase(f"sessions, timestamps {combiner.value}", strategy, (rows,), expected)
    one, two = IntervalWindow(0, 5), IntervalWindow(4, 9)
    yield BulkGrouperCase(
        "sessions that are merged already stay as they are",
        WindowingStrategy(Sessions(5), merge_status=MergeStatus.ALREADY_MERGED),
        (((b"a", one, 0, b"1"), (b"a", two, 4, b"2")),),
        ((b"a", one, 4, (b"1",)), (b"a", two, 8, (b"2",))),
    )


def _create_computed_cases() -> Iterable[BulkGrouperCase]:
    fns: Sequence[tuple[WindowFn, MergeStatus]] = (
        (FixedWindows(50), MergeStatus.NON_MERGING),
        (SlidingWindows(60, 25, 5), MergeStatus.NON_MERGING),
        (Sessions(7), MergeStatus.NEEDS_MERGE),
    )
    for window_fn, merge_status in fns:
        for combiner in TimestampCombiner:
            strategy = WindowingStrategy(
                window_fn, merge_status=merge_status, timestamp_combiner=combiner
            )
            batches = tuple(_create_rows(window_fn, start, 300) for start in (0, 300))
            name = f"600 elements, {type(window_fn).__name__}, timestamps {combiner.value}"
            yield BulkGrouperCase(name, strategy, batches, _compute_expected(strategy, batches))


def _create_rows(window_fn: WindowFn, start: int, count: int) -> tuple[Row, ...]:
    """Returns elements of 23 keys with deterministic, irregular timestamps."""
    rows: list[Row] = []
    for number in range(start, start + count):
        time = number * number * 7919 % 1009
        key = b"key%d" % (number * 31 % 23)
        rows.extend(
            (key, window, time, b"%d" % number) for window in assign_windows(window_fn, time)
        )
    return tuple(rows)


def _compute_expected(
    strategy: WindowingStrategy, batches: tuple[tuple[Row, ...], ...]
) -> tuple[ExpectedGroup, ...]:
    """Computes the expected groups directly from the definition, with a different algorithm than
    groupers use.
    """
    rows = [row for batch in batches for row in batch]
    groups: list[ExpectedGroup] = []
    for key in dict.fromkeys(row[0] for row in rows):
        of_key = [row for row in rows if row[0] == key]
        for window in _merge_windows(strategy, [row[1] for row in of_key]):
            members = [row for row in of_key if _is_in_window(row[1], window, strategy)]
            times = [row[2] for row in members]
            match strategy.timestamp_combiner:
                case TimestampCombiner.EARLIEST:
                    timestamp = min(times)
                case TimestampCombiner.LATEST:
                    timestamp = max(times)
                case TimestampCombiner.END_OF_WINDOW:
                    timestamp = window.max_timestamp()
            groups.append((key, window, timestamp, tuple(row[3] for row in members)))
    return tuple(groups)


def _merge_windows(strategy: WindowingStrategy, windows: Sequence[Window]) -> list[Window]:
    """Returns the windows that remain after all overlapping windows are merged."""
    left = list(dict.fromkeys(windows))
    if not strategy.needs_merge:
        return left
    spans = {(w.start, w.end) for w in left if isinstance(w, IntervalWindow)}
    while True:
        pair = next(((a, b) for a in spans for b in spans if a != b and a[0] <= b[0] < a[1]), None)
        if pair is None:
            return [IntervalWindow(start, end) for start, end in spans]
        a, b = pair
        spans = (spans - {a, b}) | {(a[0], max(a[1], b[1]))}


def _is_in_window(window: Window, final: Window, strategy: WindowingStrategy) -> bool:
    if not strategy.needs_merge:
        return window == final
    match window, final:
        case IntervalWindow(start, end), IntervalWindow(from_, to):
            return from_ <= start and end <= to
        case _:
            return False
