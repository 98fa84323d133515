"""Rows: blocks of encoded elements. Stages store data and send data to each other in rows."""

from __future__ import annotations

import enum
import struct

import attrs
import pyarrow as pa
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.times import MIN_TIMESTAMP

_COUNT = struct.Struct(">Q")


class RowKind(enum.IntEnum):
    """The format of a row's content."""

    ELEMENTS = 0
    """The number of elements as eight bytes (big-endian), and the concatenated encoded elements."""
    KEYED = 1
    """Columns of keys, values and windows in Arrow's stream format."""


@attrs.frozen
class Row:
    """Block of encoded elements for one shard.

    Attributes:
        shard: the key shard, or the partition of a rebalanced buffer.
        kind: the format of the content.
        data: the content.
        count: the number of elements.
        min_timestamp: the earliest event time (ms) in the row; ``MIN_TIMESTAMP`` if it isn't
            recorded.
        windows: the encoded windows of the elements, or None if they aren't recorded.
        work: the total size of the restrictions in bytes, if the elements are restrictions with
            sizes.
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
