"""Converters of a stage's output chunks to rows, partitioned by share or by key shard."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Protocol

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from beam_runner_model.buffers import BufferKind
from beam_runner_model.chunks import ElementChunk, KeyedChunk, OutputChunk
from beam_runner_model.times import MIN_TIMESTAMP
from beam_runner_model.windowed_values import compute_hold_time

from beam_runner_data.rows.columns import (
    build_batch,
    build_binary_column,
    encode_batch,
    find_distinct_windows,
    get_windows,
    split_by_shard,
    split_by_window,
)
from beam_runner_data.rows.row import Row, RowKind, build_element_row

_SIZE = struct.Struct(">d")

RowSink = Callable[[Row], None]


class RowConverter(Protocol):
    """Converter of output chunks to rows."""

    def write(self, chunk: OutputChunk) -> None:
        """Converts a chunk to rows and passes them to the sink."""


def create_row_converter(
    kind: BufferKind,
    shards: int,
    turn: int,
    sink: RowSink,
    *,
    windows: bool = False,
    restrictions: bool = False,
) -> RowConverter:
    """Returns the row converter for a kind of buffer.

    Args:
        kind: kind of the buffer.
        shards: number of key shards, and of partitions for rebalanced elements.
        turn: number of the writing bundle, which selects the first partition for rebalanced
            elements.
        sink: receiver of the rows.
        windows: whether each row must contain a single window and record this window. Rows of
            element chunks do so even without the flag.
        restrictions: whether rebalanced elements are restrictions with their sizes.
    """
    match kind:
        case BufferKind.STORED:
            return _StoredConverter(sink)
        case BufferKind.DEALT:
            return _RebalancingConverter(shards, turn, sink, restrictions=restrictions)
        case BufferKind.GROUPED | BufferKind.KEYED:
            return _KeyedConverter(shards, sink, windows=windows)
        case BufferKind.SIDE_ITERABLE | BufferKind.SIDE_MULTIMAP:
            return _SideInputConverter(sink)


class _StoredConverter:
    """Converter that writes elements in their order of arrival, without partitioning."""

    def __init__(self, sink: RowSink) -> None:
        self._sink = sink

    def write(self, chunk: OutputChunk) -> None:
        assert isinstance(chunk, ElementChunk)
        self._sink(build_element_row(0, chunk))


class _RebalancingConverter:
    """Converter that splits a chunk evenly into runs of elements, one per partition.

    The element counts of the runs differ by one at most.
    """

    def __init__(self, shards: int, turn: int, sink: RowSink, *, restrictions: bool) -> None:
        self._restrictions = restrictions
        self._shards = shards
        self._next = turn % shards
        self._sink = sink

    def write(self, chunk: OutputChunk) -> None:
        assert isinstance(chunk, ElementChunk) and chunk.ends is not None
        count, hand = chunk.count, min(self._shards, chunk.count)
        elements = build_binary_column(chunk.data, chunk.ends)
        least, more = divmod(count, hand)
        cuts = [share * least + min(share, more) for share in range(hand + 1)]
        _, offsets, data = elements.buffers()
        ends = np.frombuffer(offsets, np.int32)[cuts].tolist()
        for offset, (first, last) in enumerate(pairwise(cuts)):
            share = ElementChunk(
                last - first,
                data[ends[offset] : ends[offset + 1]],
                min_timestamp=chunk.min_timestamp,
                window=chunk.window,
            )
            row = build_element_row((self._next + offset) % self._shards, share)
            if self._restrictions:
                listed = elements.slice(first, last - first).to_pylist()
                row = attrs.evolve(row, work=_sum_restriction_sizes(listed))
            self._sink(row)
        self._next = (self._next + count) % self._shards


def _sum_restriction_sizes(restrictions: Iterable[bytes]) -> int | None:
    """Returns the total size of encoded restrictions; the last eight bytes of each are its size."""
    total = math.fsum(_SIZE.unpack_from(one, len(one) - _SIZE.size)[0] for one in restrictions)
    return math.ceil(total) if math.isfinite(total) and total >= 0 else None


class _KeyedConverter:
    """Converter that partitions rows by key shard (hash partition of keys)."""

    def __init__(self, shards: int, sink: RowSink, *, windows: bool) -> None:
        self._shards = shards
        self._sink = sink
        self._windows = windows

    def write(self, chunk: OutputChunk) -> None:
        assert isinstance(chunk, KeyedChunk)
        for shard, part in split_by_shard(build_batch(chunk), self._shards):
            if not self._windows:
                self._sink(_build_keyed_row(shard, part, None))
                continue
            for window, rows in split_by_window(part):
                self._sink(_build_keyed_row(shard, rows, frozenset((window,))))


class _SideInputConverter:
    """Converter that writes rows together with their windows. The windows decide when a side input
    is ready.
    """

    def __init__(self, sink: RowSink) -> None:
        self._sink = sink

    def write(self, chunk: OutputChunk) -> None:
        assert isinstance(chunk, KeyedChunk)
        batch = build_batch(chunk)
        self._sink(_build_keyed_row(0, batch, frozenset(find_distinct_windows(batch))))


def _build_keyed_row(shard: int, batch: pa.RecordBatch, windows: frozenset[bytes] | None) -> Row:
    earliest = MIN_TIMESTAMP
    if "timestamp" in batch.schema.names:
        earliest = pc.min(batch.column("timestamp")).as_py()
        known = get_windows(batch)
        first = known if isinstance(known, bytes) else pc.min(known).as_py()
        earliest = compute_hold_time(earliest, (first,))
    return Row(shard, RowKind.KEYED, encode_batch(batch), batch.num_rows, earliest, windows)
