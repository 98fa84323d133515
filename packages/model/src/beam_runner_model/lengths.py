"""Prefixes of encoded values without a fixed size: 32-bit counts and lengths.

A skip function takes data and the offset of a value, and returns the offset after the value. If the
data is truncated, a skip function raises IndexError or returns an offset beyond the end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from beam_runner_model.varints import TruncatedData

Skip: TypeAlias = Callable[[bytes, int], int]
"""Function that takes data and the offset of a value, and returns the offset after the value."""

COUNT_BYTES = 4
_COUNT = struct.Struct(">i")


def encode_count(count: int) -> bytes:
    """Encodes a number of values as a signed 32-bit big-endian integer; -1 means "unknown"."""
    return _COUNT.pack(count)


def decode_count(data: bytes, start: int = 0) -> int:
    """Decodes the count at `data[start]`.

    Raises:
        TruncatedData: If the data ends inside the count.
    """
    if start + COUNT_BYTES > len(data):
        raise TruncatedData("Can't decode a 32-bit count: the data is truncated")
    count: int = _COUNT.unpack_from(data, start)[0]
    return count


def skip_length_prefixed(data: bytes, position: int) -> int:
    """Returns the offset after a value that has a varint length prefix.

    Raises:
        IndexError: If the data ends inside the length prefix.
    """
    length = data[position]
    if length < 0x80:
        return position + 1 + length
    length &= 0x7F
    shift = 7
    while True:
        position += 1
        byte = data[position]
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return position + 1 + length
        shift += 7
