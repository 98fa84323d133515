"""Rows: blobs of encoded elements, the form in which data is stored and handed on."""

from __future__ import annotations

import enum
import struct

import attrs
import pyarrow as pa
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.times import MIN_TIMESTAMP

_COUNT = struct.Struct(">Q")


class RowKind(enum.IntEnum):
    """What a row holds."""

    ELEMENTS = 0
    """Encoded elements, one after the other, behind their number as eight bytes (big-endian)."""
    KEYED = 1
    """Keyed columns in Arrow's stream format."""


@attrs.frozen
class Row:
    """One row for a shard.

    Attributes:
        shard: the key shard, or which of the shares of a dealt buffer it belongs to.
        kind: what it holds.
        data: the blob.
        count: how many elements are in it.
        min_timestamp: the earliest event time (ms) in it; ``MIN_TIMESTAMP`` where nobody asked.
        windows: the encoded windows of its elements, or None where they were not told.
        work: how many bytes its elements stand for, if they are restrictions that say so.
    """

    shard: int
    kind: RowKind
    data: bytes
    count: int
    min_timestamp: int = MIN_TIMESTAMP
    windows: frozenset[bytes] | None = None
    work: int | None = None


def elements_row(shard: int, chunk: ElementChunk) -> Row:
    """A chunk of elements as a row."""
    data = b"".join((_COUNT.pack(chunk.count), chunk.data))
    earliest = MIN_TIMESTAMP if chunk.min_timestamp is None else chunk.min_timestamp
    windows = None if chunk.window is None else frozenset((chunk.window,))
    return Row(shard, RowKind.ELEMENTS, data, chunk.count, earliest, windows)


def read_elements(data: bytes | pa.Buffer) -> ElementChunk:
    """The chunk of elements in a row, which is not copied."""
    view = memoryview(data)
    (count,) = _COUNT.unpack_from(view)
    return ElementChunk(count, view[_COUNT.size :])
