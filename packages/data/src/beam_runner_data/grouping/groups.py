"""Grouping by key and window in columns: the Arrow implementation of the engine's bulk grouping.

The engine defines the rules, and ``beam_runner_engine.testing.bulk_contract`` tests them. Grouping
takes about 200 ns for an element and creates no Python object for the element. The module holds its
input in memory; ``large_shards`` handles shards that are too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from beam_runner_engine.keyed.merging import select_merger
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_model.chunks import GroupChunk
from beam_runner_model.panes import ONLY_FIRING, encode_pane
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.timestamp_combiners import get_timestamp_selector
from beam_runner_model.value_pieces import GroupValues
from beam_runner_model.window_coders import (
    WindowCoder,
    decode_max_timestamp,
    decode_window,
    encode_window,
)
from beam_runner_model.window_fns import Sessions
from beam_runner_model.windows import IntervalWindow, Window

from beam_runner_data.rows.columns import compute_stable_order, get_windows, read_large_offsets
from beam_runner_data.rows.values import split_column_values

_GROUPS_IN_CHUNK = 4096
_CHUNK_BYTES = 4 << 20
"""The maximum size in bytes of the values in a chunk of several groups. A larger single group is split into pieces."""
_NARROW_BYTES = 1 << 20
"""The maximum size in bytes of columns that are concatenated before the cast, because many small casts are slow."""
ONLY_PANE = encode_pane(ONLY_FIRING)
"""The pane of a group that contains all elements of its key and window."""

Integers = npt.NDArray[np.int64]


@attrs.frozen
class ShardRows:
    """All rows of a shard: keys and windows as codes into dictionaries, in order of arrival.

    Attributes:
        keys: the distinct encoded keys.
        key_codes: the index in `keys` of each row's key.
        windows: the distinct encoded windows.
        window_codes: the index in `windows` of each row's window; None if all rows have the same
            window.
        values: encoded values, with 64-bit offsets.
        timestamps: event times (ms), if the buffer has them.
    """

    keys: pa.Array
    key_codes: Integers
    windows: list[bytes]
    window_codes: Integers | None
    values: pa.Array
    timestamps: Integers | None


@attrs.frozen
class ColumnGroups:
    """Groups in columns; group *i* has the rows from ``starts[i]`` to ``starts[i + 1]`` of ``order``.

    Attributes:
        keys: encoded keys, one for each group.
        windows: encoded windows, one for each group, or the single window of all groups.
        starts: positions in ``order``: the start of each group, and the end of the last group.
        order: row numbers, sorted by group and then by arrival.
        values: encoded values by row number, with 64-bit offsets.
        timestamps: event times (ms) in ``order``, if the buffer has them.
    """

    keys: pa.Array
    windows: bytes | list[bytes]
    starts: Integers
    order: Integers
    values: pa.Array
    timestamps: Integers | None

    def __len__(self) -> int:
        return len(self.keys)

    def count_values(self) -> Integers:
        """Returns the number of values of each group."""
        return np.diff(self.starts)

    def compute_value_ends(self) -> Integers:
        """Returns the offset of each group's values in the concatenation of all values, and the total size."""
        sizes = np.diff(read_large_offsets(self.values))
        ends = np.zeros(len(self.order) + 1, dtype=np.int64)
        np.cumsum(sizes[self.order], out=ends[1:])
        return ends[self.starts]

    def copy_values_of_groups(self, first: int, last: int) -> pa.Array:
        """Returns a concatenated copy of the values of a range of groups, given by its start and exclusive end."""
        return self.values.take(pa.array(self.order[self.starts[first] : self.starts[last]]))

    def join_values(self, first: int, last: int) -> list[bytes]:
        """Returns a list with the concatenated values of each group in a range of groups."""
        values = self.copy_values_of_groups(first, last)
        ends = read_large_offsets(values)[self.starts[first : last + 1] - self.starts[first]]
        blobs = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), last - first, [None, pa.py_buffer(ends), values.buffers()[2]]
        )
        listed: list[bytes] = blobs.to_pylist()
        return listed


def group_row_batches(
    batches: Sequence[pa.RecordBatch],
    strategy: WindowingStrategy | None = None,
    merger: WindowMerger | None = None,
) -> ColumnGroups:
    """Groups rows by key and window.

    Args:
        batches: at least one batch in the form of ``columns``.
        strategy: the windowing strategy, which defines how windows of a key merge; None if the
            windows don't merge.
        merger: merger of windows that the engine can't merge.

    Raises:
        ValueError: The windows need a merger, and `merger` is None.
    """
    rows = concatenate_batches(batches)
    if strategy is not None and strategy.needs_merge:
        if isinstance(strategy.window_fn, Sessions):
            return _group_sessions(rows)
        rows = _merge_windows(rows, strategy, merger)
    if rows.window_codes is None:
        codes = rows.key_codes
        window_count = 1
    else:
        window_count = len(rows.windows)
        codes = rows.key_codes * window_count + rows.window_codes
    order = compute_stable_order(codes)
    ordered = codes[order]
    starts = find_starts_of_equal_runs(ordered)
    group_codes = ordered[starts[:-1]]
    windows: bytes | list[bytes] = rows.windows[0]
    if rows.window_codes is not None:
        windows = [rows.windows[code] for code in (group_codes % window_count).tolist()]
    return _build_groups(rows, order, starts, group_codes // window_count, windows)


def group_into_chunks(
    batches: Sequence[pa.RecordBatch],
    strategy: WindowingStrategy,
    merger: WindowMerger | None = None,
) -> Iterator[GroupChunk]:
    """Groups a shard by key and window, according to its windowing strategy, and yields the groups in
    chunks.

    All windows are merged before the first chunk.

    Raises:
        ValueError: The windows need a merger, and none was given.
    """
    if batches:
        yield from build_chunks(group_row_batches(batches, strategy, merger), strategy)


def build_chunks(groups: ColumnGroups, strategy: WindowingStrategy) -> Iterator[GroupChunk]:
    """Yields groups in chunks of limited size."""
    timestamps = _compute_timestamps(groups, strategy)
    counts = groups.count_values()
    windows = groups.windows
    ends = groups.compute_value_ends()
    for first, last in _divide_groups_into_chunks(ends):
        values: list[GroupValues]
        # Sort the values of one chunk at a time, so that only a few megabytes are copied at once.
        if ends[last] - ends[first] > _CHUNK_BYTES:
            values = [split_column_values(groups.copy_values_of_groups(first, last))]
        else:
            values = [*groups.join_values(first, last)]
        yield GroupChunk(
            keys=groups.keys[first:last].to_pylist(),
            windows=windows if isinstance(windows, bytes) else windows[first:last],
            timestamps=timestamps[first:last].tolist(),
            counts=counts[first:last].tolist(),
            values=values,
            pane=ONLY_PANE,
        )


def _divide_groups_into_chunks(ends: Integers) -> Iterator[tuple[int, int]]:
    """Divides groups into chunks of limited group count and byte size.

    A group that exceeds the byte limit is a chunk by itself.
    """
    first, size = 0, len(ends) - 1
    while first < size:
        fits = int(np.searchsorted(ends, ends[first] + _CHUNK_BYTES, side="right")) - 1
        last = min(max(first + 1, fits), first + _GROUPS_IN_CHUNK, size)
        yield first, last
        first = last


def concatenate_batches(batches: Sequence[pa.RecordBatch]) -> ShardRows:
    """Returns a copy of all rows of one or more batches."""
    keys = _concatenate_column(batches, "key").dictionary_encode()
    window_codes, windows = _encode_windows(batches)
    timestamps = None
    if "timestamp" in batches[0].schema.names:
        timestamps = np.concatenate([b.column("timestamp").to_numpy() for b in batches])
    return ShardRows(
        keys=keys.dictionary,
        key_codes=keys.indices.to_numpy().astype(np.int64),
        windows=windows,
        window_codes=window_codes,
        values=_concatenate_column(batches, "value"),
        timestamps=timestamps,
    )


def _concatenate_column(batches: Sequence[pa.RecordBatch], name: str) -> pa.Array:
    columns = [batch.column(name) for batch in batches]
    if sum(column.nbytes for column in columns) <= _NARROW_BYTES:
        return pa.concat_arrays(columns).cast(pa.large_binary())
    # Use 64-bit offsets, because a shard may exceed the 2 GiB that 32-bit offsets can address.
    return pa.concat_arrays([column.cast(pa.large_binary()) for column in columns])


def _encode_windows(batches: Sequence[pa.RecordBatch]) -> tuple[Integers | None, list[bytes]]:
    columns = [get_windows(batch) for batch in batches]
    shared = {column for column in columns if isinstance(column, bytes)}
    if len(shared) == 1 and all(isinstance(column, bytes) for column in columns):
        return None, list(shared)
    arrays = [
        pa.repeat(pa.scalar(column, pa.binary()), len(batch))
        if isinstance(column, bytes)
        else column
        for column, batch in zip(columns, batches, strict=True)
    ]
    encoded = pa.concat_arrays(arrays).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _group_sessions(rows: ShardRows) -> ColumnGroups:
    """Groups rows into sessions by key.

    The function sorts rows by key and start. A session ends when the next window starts at or after
    the session's end.
    """
    decoded = [decode_window_as_interval(window) for window in rows.windows]
    codes = rows.window_codes
    if codes is None:
        codes = np.zeros(len(rows.key_codes), dtype=np.int64)
    window_starts = np.array([w.start for w in decoded], dtype=np.int64)[codes]
    window_ends = np.array([w.end for w in decoded], dtype=np.int64)[codes]
    order = np.lexsort((window_starts, rows.key_codes))
    keys, begins = rows.key_codes[order], window_starts[order]
    # Compute the running maximum of window ends within each key. Ends are ranks, shifted above the
    # ranks of all earlier keys.
    distinct_ends, ranks = np.unique(window_ends, return_inverse=True)
    lift = keys * len(distinct_ends)
    furthest = distinct_ends[np.maximum.accumulate(lift + ranks[order]) - lift]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (keys[1:] != keys[:-1]) | (begins[1:] >= furthest[:-1])
    session_of_row = np.empty(len(order), dtype=np.int64)
    session_of_row[order] = np.cumsum(is_first) - 1
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(order)) - 1
    windows = [
        encode_window(IntervalWindow(start, end))
        for start, end in zip(begins[firsts].tolist(), furthest[lasts].tolist(), strict=True)
    ]
    arrival = compute_stable_order(session_of_row)
    starts = find_starts_of_equal_runs(session_of_row[arrival])
    return _build_groups(rows, arrival, starts, keys[firsts], windows)


def _merge_windows(
    rows: ShardRows, strategy: WindowingStrategy, merger: WindowMerger | None
) -> ShardRows:
    """Returns the rows with merged windows; calls the merger once for all keys."""
    merging = select_merger(strategy, merger)
    assert merging is not None
    decoded = [decode_window(strategy.window_coder, window) for window in rows.windows]
    codes = rows.window_codes
    if codes is None:
        codes = np.zeros(len(rows.key_codes), dtype=np.int64)
    pairs, pair_of_row = np.unique(rows.key_codes * len(decoded) + codes, return_inverse=True)
    asked = [
        [decoded[code] for code in (pairs[first:last] % len(decoded)).tolist()]
        for first, last in pairwise(find_starts_of_equal_runs(pairs // len(decoded)).tolist())
    ]
    merged: dict[Window, int] = {}
    code_of_pair = [
        merged.setdefault(answer.get(window, window), len(merged))
        for windows, answer in zip(asked, merging.merge_windows(asked), strict=True)
        for window in windows
    ]
    return attrs.evolve(
        rows,
        windows=[encode_window(window) for window in merged],
        window_codes=np.array(code_of_pair, dtype=np.int64)[pair_of_row],
    )


def decode_window_as_interval(window: bytes) -> IntervalWindow:
    """Decodes an interval window.

    Raises:
        ValueError: The window isn't an interval window, and this module can merge only interval
            windows.
    """
    decoded = decode_window(WindowCoder.INTERVAL, window)
    assert isinstance(decoded, IntervalWindow)
    return decoded


def _build_groups(
    rows: ShardRows,
    order: Integers,
    starts: Integers,
    key_codes: Integers,
    windows: bytes | list[bytes],
) -> ColumnGroups:
    return ColumnGroups(
        keys=rows.keys.take(pa.array(key_codes)),
        windows=windows,
        starts=starts,
        order=order,
        values=rows.values,
        timestamps=None if rows.timestamps is None else rows.timestamps[order],
    )


def find_starts_of_equal_runs(ordered: Integers) -> Integers:
    """Returns the start index of each sequence of equal numbers in a sorted column, followed by the column's length."""
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    return np.concatenate(([0], changes, [len(ordered)])).astype(np.int64)


def _compute_timestamps(groups: ColumnGroups, strategy: WindowingStrategy) -> Integers:
    choose = get_timestamp_selector(strategy.timestamp_combiner)
    if groups.timestamps is not None and choose is not None:
        combine = np.minimum if choose is min else np.maximum
        return combine.reduceat(groups.timestamps, groups.starts[:-1])
    if isinstance(groups.windows, bytes):
        end = decode_max_timestamp(strategy.window_coder, groups.windows)
        return np.full(len(groups), end, dtype=np.int64)
    ends = {w: decode_max_timestamp(strategy.window_coder, w) for w in set(groups.windows)}
    return np.array([ends[window] for window in groups.windows], dtype=np.int64)
