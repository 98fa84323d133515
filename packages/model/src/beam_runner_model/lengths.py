"""What stands in front of an encoded value of no fixed size: a count of 32 bits, or a length.

Functions that skip take data and the position of a value and return the position after it. A value
that is cut off by the end of the data raises IndexError or gives a position beyond the end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from beam_runner_model.varints import CutOff

Skip: TypeAlias = Callable[[bytes, int], int]
"""Takes data and the position of a value and returns the position after it."""

COUNT_BYTES = 4
_COUNT = struct.Struct(">i")


def encode_count(count: int) -> bytes:
    """Encodes how many values follow, or -1 for "not known", as 32 signed bits, big-endian."""
    return _COUNT.pack(count)


def decode_count(data: bytes, start: int = 0) -> int:
    """Decodes the count that begins at `data[start]`; raises CutOff if the data ends within it."""
    if start + COUNT_BYTES > len(data):
        raise CutOff("the data ends within a count")
    count: int = _COUNT.unpack_from(data, start)[0]
    return count


def skip_delimited(data: bytes, position: int) -> int:
    """Skips a length (a variable-length integer) and so many bytes."""
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
