"""Keyed rows as Arrow columns: the form in which keys, values, windows and event times are sent and
stored.

A record batch has the columns ``key`` and ``value`` (binary). The batch has the column ``window``
(binary) unless all rows share a window, which is then in the schema's metadata. The batch has the
column ``timestamp`` (event time in milliseconds) if the reader needs timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from beam_runner_model.chunks import KeyedChunk

_WINDOW = b"window"
_FEW_ROWS = 16
"""A number of rows that often belong to one key shard. For so few rows, a check is faster than a
sort.
"""


def build_batch(chunk: KeyedChunk) -> pa.RecordBatch:
    """Returns the columns of a chunk as a record batch, without copying keys or values."""
    names = ["key", "value"]
    columns = [
        build_binary_column(chunk.key_data, chunk.key_ends),
        build_binary_column(chunk.value_data, chunk.value_ends),
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


def get_windows(batch: pa.RecordBatch) -> bytes | pa.Array:
    """Returns the common window of all rows, or the column of windows."""
    metadata = batch.schema.metadata or {}
    return metadata[_WINDOW] if _WINDOW in metadata else batch.column("window")


def combine_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Returns the rows of one or more batches as one batch; copies the rows if there are several
    batches.
    """
    if len(batches) == 1:
        return batches[0]
    names, metadata = ["key", "value"], {}
    windows = [get_windows(batch) for batch in batches]
    if all(isinstance(each, bytes) and each == windows[0] for each in windows):
        metadata[_WINDOW] = windows[0]
    else:
        names.append("window")
    if "timestamp" in batches[0].schema.names:
        names.append("timestamp")
    columns = [
        pa.concat_arrays(
            [
                build_window_column(batch) if name == "window" else batch.column(name)
                for batch in batches
            ]
        )
        for name in names
    ]
    return pa.RecordBatch.from_arrays(columns, names).replace_schema_metadata(metadata)


def build_window_column(batch: pa.RecordBatch) -> pa.Array:
    """Returns a column with the window of each row, also if all rows share a window."""
    windows = get_windows(batch)
    if isinstance(windows, bytes):
        return pa.repeat(pa.scalar(windows, pa.binary()), batch.num_rows)
    return windows


def list_row_windows(batch: pa.RecordBatch) -> list[bytes]:
    """Returns a list with the window of each row, also if all rows share a window."""
    windows = get_windows(batch)
    if isinstance(windows, bytes):
        return [windows] * batch.num_rows
    listed: list[bytes] = windows.to_pylist()
    return listed


def find_distinct_windows(batch: pa.RecordBatch) -> list[bytes]:
    """Returns the distinct windows of the rows."""
    windows = get_windows(batch)
    if isinstance(windows, bytes):
        return [windows]
    distinct: list[bytes] = windows.unique().to_pylist()
    return distinct


def build_binary_column(data: bytes | memoryview, ends: Sequence[int]) -> pa.Array:
    """Returns a binary column for concatenated values with the given end offsets, without copying."""
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def read_large_offsets(column: pa.Array) -> npt.NDArray[np.int64]:
    """Returns the offsets of a binary column with 64-bit offsets, without copying."""
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int64)
    return offsets[column.offset : column.offset + len(column) + 1]


def concatenate_values(column: pa.Array) -> memoryview | bytes:
    """Returns all values of a binary column with 32-bit offsets, concatenated, without copying."""
    data = column.buffers()[2]
    if data is None:
        return b""
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)
    first, last = offsets[column.offset], offsets[column.offset + len(column)]
    return memoryview(data)[int(first) : int(last)]


def replace_windows(batch: pa.RecordBatch, windows: Mapping[bytes, bytes]) -> pa.RecordBatch:
    """Returns the same rows, with each window replaced by its value in the mapping ``windows``."""
    names, metadata = list(batch.schema.names), {}
    columns = list(batch.columns)
    now = get_windows(batch)
    if isinstance(now, bytes):
        metadata[_WINDOW] = windows[now]
    else:
        place = names.index("window")
        encoded = now.dictionary_encode()
        mapped = pa.array([windows[each] for each in encoded.dictionary.to_pylist()], pa.binary())
        columns[place] = mapped.take(encoded.indices)
    return pa.RecordBatch.from_arrays(columns, names).replace_schema_metadata(metadata)


def encode_batch(batch: pa.RecordBatch) -> bytes:
    """Returns the batch with its schema, as one bytes object."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def decode_batch(blob: bytes | pa.Buffer) -> pa.RecordBatch:
    """Decodes the result of `encode_batch`, without copying its columns."""
    return pa.ipc.open_stream(blob).read_next_batch()


def split_by_shard(batch: pa.RecordBatch, shards: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the part of a batch for each key shard, in the order of shards; rows keep their order.

    The shard of a key is the CRC-32 of its encoding modulo the number of shards. Unlike Python's
    own ``hash``, it is the same in every process and on every machine.
    """
    if shards == 1:
        yield 0, batch
        return
    if batch.num_rows <= _FEW_ROWS:
        known = {crc32(key) % shards for key in batch.column("key").to_pylist()}
        if len(known) == 1:
            yield known.pop(), batch
            return
    keys = batch.column("key").to_pylist()
    yield from split_by_partition(
        batch, np.fromiter(map(crc32, keys), np.uint32, len(keys)) % shards
    )


def split_by_partition(
    batch: pa.RecordBatch, part_of_row: npt.NDArray[np.integer[Any]]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the part of a batch for each part number, in order; rows keep their order."""
    taken = batch.take(pa.array(compute_stable_order(part_of_row)))
    start = 0
    for part, count in enumerate(np.bincount(part_of_row).tolist()):
        if count:
            yield part, taken.slice(start, count)
        start += count


def compute_stable_order(codes: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Returns the permutation that sorts an array of small non-negative numbers and keeps the order of equals."""
    # NumPy sorts numbers of at most 16 bits by radix sort, which takes a fifth of the time.
    narrow = codes.astype(np.min_scalar_type(codes.max(initial=0)))
    return np.argsort(narrow, kind="stable")


def split_by_window(batch: pa.RecordBatch) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """Yields the part of a batch for each window; rows keep their order."""
    windows = get_windows(batch)
    if isinstance(windows, bytes):
        yield windows, batch
        return
    encoded = windows.dictionary_encode()
    codes = encoded.indices.to_numpy()
    for code, window in enumerate(encoded.dictionary.to_pylist()):
        yield window, batch.take(pa.array(np.flatnonzero(codes == code)))
