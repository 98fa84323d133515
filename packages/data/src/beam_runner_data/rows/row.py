"""Rows: blobs of encoded elements, the form in which data is stored and passed on."""

from __future__ import annotations

import enum
import struct

import attrs
import pyarrow as pa
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.times import MIN_TIMESTAMP

_COUNT = struct.Struct(">Q")


class RowKind(enum.IntEnum):
    """The content of a row."""

    ELEMENTS = 0
    """Concatenated encoded elements, after their number as eight bytes (big-endian)."""
    KEYED = 1
    """Keyed columns in Arrow's stream format."""


@attrs.frozen
class Row:
    """One row for a shard.

    Attributes:
        shard: the key shard, or the share of a redistributed buffer.
        kind: the content.
        data: the blob.
        count: the number of elements.
        min_timestamp: the earliest event time (ms) in it; ``MIN_TIMESTAMP`` if it isn't recorded.
        windows: the encoded windows of its elements, or None if they aren't recorded.
        work: the number of bytes that its elements stand for, if they are restrictions with sizes.
    """

    shard: int
    kind: RowKind
    data: bytes
    count: int
    min_timestamp: int = MIN_TIMESTAMP
    windows: frozenset[bytes] | None = None
    work: int | None = None


def build_element_row(shard: int, chunk: ElementChunk) -> Row:
    """Returns a chunk of elements as a row."""
    data = b"".join((_COUNT.pack(chunk.count), chunk.data))
    earliest = MIN_TIMESTAMP if chunk.min_timestamp is None else chunk.min_timestamp
    windows = None if chunk.window is None else frozenset((chunk.window,))
    return Row(shard, RowKind.ELEMENTS, data, chunk.count, earliest, windows)


def read_elements(data: bytes | pa.Buffer) -> ElementChunk:
    """Returns the chunk of elements in a row, without copying."""
    view = memoryview(data)
    (count,) = _COUNT.unpack_from(view)
    return ElementChunk(count, view[_COUNT.size :])
