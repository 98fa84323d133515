"""Output ports: where a stage's chunks become rows, for Spark's shuffle or for a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from beam_runner_worker.records import ElementChunk, KeyedChunk, OutputChunk

from beam_spark_executor.plan import BufferKind
from beam_spark_executor.task.columns import by_shard, to_batch, to_bytes
from beam_spark_executor.task.rows import Row, RowKind, elements_row

RowSink = Callable[[Row], None]


class RowPort(Protocol):
    """An output port that makes rows."""

    def write(self, chunk: OutputChunk) -> None:
        """Takes a chunk and hands its rows to the sink; blocks while the sink is full."""


def row_port(kind: BufferKind, shards: int, partition: int, sink: RowSink) -> RowPort:
    """The port for a buffer of some kind.

    Args:
        kind: what happens in the buffer.
        shards: how many tasks read it, for shuffles.
        partition: the number of the writing task: dealing begins at another shard in each.
        sink: takes the rows.
    """
    match kind:
        case BufferKind.STORED:
            return _StoredPort(sink)
        case BufferKind.DEALT:
            return _DealingPort(shards, partition, sink)
        case BufferKind.GROUPED:
            return _KeyedPort(shards, sink)
        case BufferKind.SIDE_ITERABLE | BufferKind.SIDE_MULTIMAP:
            return _KeyedPort(1, sink)


class _StoredPort:
    """Elements as they come."""

    def __init__(self, sink: RowSink) -> None:
        self._sink = sink

    def write(self, chunk: OutputChunk) -> None:
        assert isinstance(chunk, ElementChunk)
        self._sink(elements_row(0, chunk))


class _DealingPort:
    """Element after element to shard after shard, so that shards differ by one element at most."""

    def __init__(self, shards: int, partition: int, sink: RowSink) -> None:
        self._shards = shards
        self._next = partition % shards
        self._sink = sink

    def write(self, chunk: OutputChunk) -> None:
        assert isinstance(chunk, ElementChunk) and chunk.ends is not None
        data = memoryview(chunk.data)
        starts = [0, *chunk.ends[:-1]]
        hand = min(self._shards, chunk.count)
        for offset in range(hand):
            mine = slice(offset, None, self._shards)
            parts = [data[s:e] for s, e in zip(starts[mine], chunk.ends[mine], strict=True)]
            shard = (self._next + offset) % self._shards
            self._sink(elements_row(shard, ElementChunk(len(parts), b"".join(parts))))
        self._next = (self._next + chunk.count) % self._shards


class _KeyedPort:
    """Rows by the shard of their key."""

    def __init__(self, shards: int, sink: RowSink) -> None:
        self._shards = shards
        self._sink = sink

    def write(self, chunk: OutputChunk) -> None:
        assert isinstance(chunk, KeyedChunk)
        for shard, part in by_shard(to_batch(chunk), self._shards):
            self._sink(Row(shard, RowKind.KEYED, to_bytes(part)))
