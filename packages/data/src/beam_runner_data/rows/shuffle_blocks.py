"""Shuffle blocks, which go through Spark's shuffle between the tasks of a section (stages that run
as one Spark job).

A block contains rows of one stage for one shard, or messages of a task. A block has a header and a
body. In a body of rows, each row begins at a multiple of 16 bytes, which Arrow needs.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator

import attrs
import pyarrow as pa

from beam_runner_data.rows.row import Row, RowKind

_HEAD = struct.Struct(">BxxxIIIQQ")
_ROW = struct.Struct(">BxxxxxxxQQxxxxxxxx")
_ALIGNED = 16


class ShuffleBlockKind(enum.IntEnum):
    """Kind of a shuffle block's content: rows, a reply, or a summary."""

    ROWS = 0
    """Rows of elements."""
    REPLY = 1
    """The replies of a task, and of the tasks before it, to the server."""
    TOLD = 2
    """A task's summary of its sent blocks; the last block of each task to each shard."""


@attrs.frozen
class ShuffleBlockHeader:
    """Header of a shuffle block, which names the sender and the content of the block.

    Attributes:
        kind: the content of the block.
        source: the number of the sending task, the same in each attempt.
        number: the position among all blocks of this task to this shard.
        stage: the position of the receiving stage in the section.
        count: the number of elements.
        size: the size of its rows in bytes.
    """

    kind: ShuffleBlockKind
    source: int
    number: int
    stage: int = 0
    count: int = 0
    size: int = 0


def encode_block(head: ShuffleBlockHeader, body: Iterable[bytes] = ()) -> bytes:
    """Returns a shuffle block as bytes: its header and body."""
    parts = (head.kind, head.source, head.number, head.stage, head.count, head.size)
    return b"".join((_HEAD.pack(*parts), *body))


def encode_row(row: Row) -> tuple[bytes, bytes, bytes]:
    """Returns an encoded row for the body of a shuffle block."""
    size = len(row.data)
    return _ROW.pack(row.kind, row.count, size), row.data, bytes(-size % _ALIGNED)


def read_header(parcel: bytes | pa.Buffer) -> ShuffleBlockHeader:
    """Decodes the header of a shuffle block."""
    kind, *numbers = _HEAD.unpack_from(parcel)
    return ShuffleBlockHeader(ShuffleBlockKind(kind), *numbers)


def read_body(parcel: bytes) -> bytes:
    """Returns the body of a block that contains no rows."""
    return parcel[_HEAD.size :]


def read_rows(parcel: bytes | pa.Buffer) -> Iterator[tuple[RowKind, int, pa.Buffer]]:
    """Yields the kind, the number of elements and the data of each row in a block, without copying."""
    whole = pa.py_buffer(parcel)
    at = _HEAD.size
    while at < whole.size:
        kind, count, size = _ROW.unpack_from(whole, at)
        at += _ROW.size
        yield RowKind(kind), count, whole.slice(at, size)
        at += size + -size % _ALIGNED
