"""Keyed rows as Arrow columns: how keys, values, windows and event times travel and are stored.

A record batch has the columns ``key`` and ``value`` (binary), ``window`` (binary) unless all rows
share one, which is then in the schema's metadata, and ``timestamp`` (event time in milliseconds)
where the edge keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from zlib import crc32

import numpy as np
import pyarrow as pa
from beam_runner_worker.records import KeyedChunk

_WINDOW = b"window"


def to_batch(chunk: KeyedChunk) -> pa.RecordBatch:
    """The columns of a chunk, without copying keys or values."""
    names = ["key", "value"]
    columns = [
        _binary(chunk.key_data, chunk.key_ends),
        _binary(chunk.value_data, chunk.value_ends),
    ]
    metadata = {}
    if isinstance(chunk.windows, bytes):
        metadata[_WINDOW] = chunk.windows
    else:
        names.append("window")
        columns.append(pa.array(chunk.windows, pa.binary()))
    if chunk.timestamps is not None:
        names.append("timestamp")
        columns.append(pa.array(np.asarray(chunk.timestamps, dtype=np.int64)))
    batch = pa.RecordBatch.from_arrays(columns, names)
    return batch.replace_schema_metadata(metadata)


def windows_of(batch: pa.RecordBatch) -> bytes | pa.Array:
    """The one window of all rows, or the column of windows."""
    metadata = batch.schema.metadata or {}
    return metadata[_WINDOW] if _WINDOW in metadata else batch.column("window")


def to_bytes(batch: pa.RecordBatch) -> bytes:
    """The batch with its schema, as one blob."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def from_bytes(blob: bytes | pa.Buffer) -> pa.RecordBatch:
    """The batch of a blob, without copying its columns."""
    return pa.ipc.open_stream(blob).read_next_batch()


def by_shard(batch: pa.RecordBatch, shards: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Parts of a batch by the shard of their keys, in the order of shards; within each, as before.

    The shard of a key is the CRC-32 of its encoding modulo the number of shards: the same in every
    process and on every machine, unlike Python's own ``hash``.
    """
    if shards == 1:
        yield 0, batch
        return
    keys = batch.column("key").dictionary_encode()
    shard_of_key = np.fromiter(
        (crc32(key) % shards for key in keys.dictionary.to_pylist()),
        dtype=np.int32,
        count=len(keys.dictionary),
    )
    shard_of_row = shard_of_key[keys.indices.to_numpy()]
    order = np.argsort(shard_of_row, kind="stable")
    taken = batch.take(pa.array(order))
    ends = np.cumsum(np.bincount(shard_of_row, minlength=shards))
    start = 0
    for shard, end in enumerate(ends.tolist()):
        if end > start:
            yield shard, taken.slice(start, end - start)
        start = end


def _binary(data: bytes, ends: Sequence[int]) -> pa.Array:
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
