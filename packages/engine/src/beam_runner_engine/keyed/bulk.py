"""Bulk grouping of bounded data whose windows fire once, without an object or a state cell per
element.

If all input is available before grouping starts, the watermark advances from the minimum to the
maximum timestamp in one step. Many triggers then fire each window exactly once, on time. Grouping
then needs no trigger state, timers or state cells. See `fires_once`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from beam_runner_model.panes import ONLY_FIRING
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.times import Timestamp
from beam_runner_model.timestamp_combiners import (
    TimestampCombiner,
    combine_timestamps,
    get_reducer,
)
from beam_runner_model.triggers import fires_once
from beam_runner_model.window_coders import (
    decode_window,
    encode_window,
    encoded_max_timestamp,
)
from beam_runner_model.windows import Window

from beam_runner_engine.keyed.columns import KeyColumns, append_cells, append_rows, check_lengths
from beam_runner_engine.keyed.groups import Group
from beam_runner_engine.keyed.merging import select_merger
from beam_runner_engine.keyed.ports import BulkGrouper, WindowMerger


def create_bulk_grouper(
    strategy: WindowingStrategy, merger: WindowMerger | None = None
) -> BulkGrouper:
    """Returns an empty grouper that uses dictionaries, for hosts without a columnar grouper.

    Args:
        strategy: the windowing strategy of the input.
        merger: merges custom windows with the SDK; required if only the SDK can merge the windows.

    Raises:
        ValueError: If a window can fire more than once, or if a required `merger` is None.
    """
    if not fires_once(strategy.trigger):
        raise ValueError(
            f"Can't group in bulk: {strategy.trigger} can fire a window of bounded input more than once"
        )
    merging = select_merger(strategy, merger)
    return _PlainGrouper(strategy) if merging is None else _MergingGrouper(strategy, merging)


class _PlainGrouper:
    """Grouper for windows that don't merge.

    The outer dictionary is keyed by window, because consecutive elements mostly share a window.
    """

    def __init__(self, strategy: WindowingStrategy) -> None:
        self._strategy = strategy
        self._keeps_times = strategy.timestamp_combiner is not TimestampCombiner.END_OF_WINDOW
        self._values: dict[bytes, dict[bytes, list[Any]]] = {}
        self._times: dict[bytes, dict[bytes, list[Timestamp]]] = {}

    def add(
        self,
        keys: Sequence[bytes],
        windows: Sequence[bytes],
        timestamps: Sequence[Timestamp],
        values: Sequence[Any],
    ) -> None:
        check_lengths(keys, windows, timestamps, values)
        append_cells(self._values, keys, windows, values)
        if self._keeps_times:
            append_cells(self._times, keys, windows, timestamps)

    def groups(self) -> Iterator[Group]:
        coder = self._strategy.window_coder
        combine = get_reducer(self._strategy.timestamp_combiner)
        for window, of_window in self._values.items():
            if combine is not None:
                times = self._times[window]
                for key, values in of_window.items():
                    yield Group(key, window, combine(times[key]), ONLY_FIRING, values)
            else:
                end = encoded_max_timestamp(coder, window)
                for key, values in of_window.items():
                    yield Group(key, window, end, ONLY_FIRING, values)


class _MergingGrouper:
    """Grouper for merging windows. The grouper merges the windows of each key after all input
    arrived.
    """

    def __init__(self, strategy: WindowingStrategy, merger: WindowMerger) -> None:
        self._strategy = strategy
        self._merger = merger
        self._columns: dict[bytes, KeyColumns] = {}

    def add(
        self,
        keys: Sequence[bytes],
        windows: Sequence[bytes],
        timestamps: Sequence[Timestamp],
        values: Sequence[Any],
    ) -> None:
        check_lengths(keys, windows, timestamps, values)
        append_rows(self._columns, keys, windows, timestamps, values)

    def groups(self) -> Iterator[Group]:
        coder = self._strategy.window_coder
        decoded: dict[bytes, Window] = {}
        for windows, _, _ in self._columns.values():
            for data in windows:
                if data not in decoded:
                    decoded[data] = decode_window(coder, data)
        asked = [
            [decoded[data] for data in dict.fromkeys(windows)]
            for windows, _, _ in self._columns.values()
        ]
        answers = self._merger.merge(asked)
        for (key, (windows, times, values)), merged in zip(
            self._columns.items(), answers, strict=True
        ):
            parts: dict[Window, tuple[list[Timestamp], list[Any]]] = {}
            for data, time, value in zip(windows, times, values, strict=True):
                window = decoded[data]
                part = parts.setdefault(merged.get(window, window), ([], []))
                part[0].append(time)
                part[1].append(value)
            for window, (part_times, part_values) in parts.items():
                combiner = self._strategy.timestamp_combiner
                timestamp = combine_timestamps(combiner, window, part_times)
                yield Group(key, encode_window(window), timestamp, ONLY_FIRING, part_values)
