"""Parcels: what goes through Spark's shuffle, rows of one stage for one shard, or what a task tells of itself.

A parcel is a head, then its body. In a body of rows each begins at a multiple of 16 bytes, as Arrow likes it.
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


class ParcelKind(enum.IntEnum):
    """What a parcel holds."""

    ROWS = 0
    """Rows of elements."""
    REPLY = 1
    """What a task, and those before it, have to say to the server."""
    TOLD = 2
    """What a task has sent; the last parcel of each task to each shard."""


@attrs.frozen
class Head:
    """What is said in front of a parcel.

    Attributes:
        kind: what it holds.
        source: the number of the task that sent it, the same in each attempt at it.
        number: its place among all parcels of this task to this shard.
        stage: the place in the section of the stage that it is for.
        count: how many elements are in it.
        size: of its rows, in bytes.
    """

    kind: ParcelKind
    source: int
    number: int
    stage: int = 0
    count: int = 0
    size: int = 0


def encode_parcel(head: Head, body: Iterable[bytes] = ()) -> bytes:
    """A parcel as bytes."""
    parts = (head.kind, head.source, head.number, head.stage, head.count, head.size)
    return b"".join((_HEAD.pack(*parts), *body))


def encode_row(row: Row) -> tuple[bytes, bytes, bytes]:
    """A row as part of a body."""
    size = len(row.data)
    return _ROW.pack(row.kind, row.count, size), row.data, bytes(-size % _ALIGNED)


def read_head(parcel: bytes | pa.Buffer) -> Head:
    """What is said in front of it."""
    kind, *numbers = _HEAD.unpack_from(parcel)
    return Head(ParcelKind(kind), *numbers)


def read_body(parcel: bytes) -> bytes:
    """The body of a parcel that holds no rows."""
    return parcel[_HEAD.size :]


def read_rows(parcel: bytes | pa.Buffer) -> Iterator[tuple[RowKind, int, pa.Buffer]]:
    """Of each row its kind, how many elements are in it, and its data, which is not copied."""
    whole = pa.py_buffer(parcel)
    at = _HEAD.size
    while at < whole.size:
        kind, count, size = _ROW.unpack_from(whole, at)
        at += _ROW.size
        yield RowKind(kind), count, whole.slice(at, size)
        at += size + -size % _ALIGNED
