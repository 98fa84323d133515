"""Sorting of a shard's elements by key, in parts of limited size. If possible, a part ends after the
last element of a key.

Stateful user code gets all elements of a key consecutively, so the state of the key is read and
written once. Within a key, elements stay in their order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa
from beam_runner_model.chunks import ElementChunk

from beam_runner_data.grouping.groups import (
    Integers,
    ShardRows,
    concatenate_batches,
    find_starts_of_equal_runs,
)
from beam_runner_data.rows.columns import compute_stable_order, read_large_offsets
from beam_runner_data.rows.key_partitioning import PartitioningRules, partition_rows_to_fit_memory

_PART_ROWS = 64 * 1024
"""The maximum number of rows of a part. The Fn API needs two bundles for each part, and the end of
each bundle costs up to 0.2 s.
"""
_PART_BYTES = 16 * 1024 * 1024


@attrs.frozen
class KeySortedElements:
    """Part of a shard's elements, sorted by key, in columns of equal length.

    Attributes:
        keys: the distinct encoded keys, in order.
        counts: the number of elements of each key.
        windows: the encoded window of each element, or the common window of all elements.
        timestamps: event times (ms).
        values: each element as a windowed value; binary with 64-bit offsets.
        ends_key: whether no further part has elements of the last key.
    """

    keys: list[bytes]
    counts: list[int]
    windows: bytes | list[bytes]
    timestamps: Integers
    values: pa.Array
    ends_key: bool

    def __len__(self) -> int:
        return len(self.values)

    def expand_keys(self) -> list[bytes]:
        """Returns the key of each element, by repeating each distinct key."""
        pairs = zip(self.keys, self.counts, strict=True)
        return [key for key, count in pairs for _ in range(count)]

    def expand_windows(self) -> Sequence[bytes]:
        """Returns the window of each element, also if all elements share a window."""
        return [self.windows] * len(self) if isinstance(self.windows, bytes) else self.windows


def sort_by_key(batches: Iterable[pa.RecordBatch]) -> Iterator[KeySortedElements]:
    """Yields all elements of some batches, sorted by key, in parts of limited size.

    The batches are in the form of ``columns``, and all of them are in memory together. A part ends
    with a key, unless the key has more elements than the maximum of a part.
    """
    together = list(batches)
    if not together:
        return
    rows = concatenate_batches(together)
    order = compute_stable_order(rows.key_codes)
    codes = rows.key_codes[order]
    ends = find_starts_of_equal_runs(codes)[1:]
    sizes = np.cumsum(np.diff(read_large_offsets(rows.values))[order])
    first = 0
    while first < len(order):
        before = sizes[first - 1] if first else 0
        fits = int(np.searchsorted(sizes, before + _PART_BYTES, side="right"))
        most = max(first + 1, min(first + _PART_ROWS, fits, len(order)))
        whole_keys = int(np.searchsorted(ends, most, side="right"))
        last = int(ends[whole_keys - 1]) if whole_keys else 0
        ends_key = last > first
        if not ends_key:
            last = most
        yield _build_sorted_part(rows, order[first:last], codes[first:last], ends_key=ends_key)
        first = last


def sort_large_shard_by_key(
    batches: Iterable[pa.RecordBatch], weight: int, rules: PartitioningRules
) -> Iterator[KeySortedElements]:
    """Yields parts as `sort_by_key` does, but writes rows that exceed the memory limit to files.

    Args:
        batches: the rows, read once.
        weight: total size of the rows in memory, in bytes.
        rules: rules for the partitioning of the rows by key.
    """
    for run in partition_rows_to_fit_memory(rules, batches, weight):
        if run.memory_size <= rules.budget:
            yield from sort_by_key(run.read_batches())
            continue
        before: KeySortedElements | None = None
        for batch in run.read_batches():
            for part in sort_by_key([batch]):
                if before is not None:
                    yield attrs.evolve(before, ends_key=False)
                before = part
        if before is not None:
            yield before


def _build_sorted_part(
    rows: ShardRows, order: Integers, codes: Integers, *, ends_key: bool
) -> KeySortedElements:
    runs = find_starts_of_equal_runs(codes)
    windows: bytes | list[bytes] = rows.windows[0]
    if rows.window_codes is not None:
        windows = [rows.windows[code] for code in rows.window_codes[order].tolist()]
    assert rows.timestamps is not None
    return KeySortedElements(
        keys=rows.keys.take(pa.array(codes[runs[:-1]])).to_pylist(),
        counts=np.diff(runs).tolist(),
        windows=windows,
        timestamps=rows.timestamps[order],
        values=rows.values.take(pa.array(order)),
        ends_key=ends_key,
    )


def join_elements_to_chunk(values: pa.Array) -> ElementChunk:
    """Returns elements as one chunk, without decoding any of them."""
    offsets = read_large_offsets(values)
    start, end = int(offsets[0]), int(offsets[-1])
    return ElementChunk(len(values), values.buffers()[2][start:end].to_pybytes())
