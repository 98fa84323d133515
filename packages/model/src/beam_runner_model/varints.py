"""Beam's variable-length integers (`beam:coder:varint:v1`).

Each byte holds seven bits, lowest bits first. The high bit is set in all bytes except the last
byte. A negative number is encoded as its 64-bit two's complement.
"""

from __future__ import annotations

_MASK64 = (1 << 64) - 1
_SIGN64 = 1 << 63


class TruncatedData(IndexError, ValueError):
    """Error of truncated data: the data ends inside a value. A reader of partial data can wait for
    more data.
    """


def encode_varint(value: int) -> bytes:
    """Encodes an integer in one to ten bytes.

    Raises:
        ValueError: If the integer doesn't fit into 64 signed bits.
    """
    if not -_SIGN64 <= value < _SIGN64:
        raise ValueError(f"Can't encode {value} as a varint: it doesn't fit into 64 signed bits")
    rest = value & _MASK64
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_varint(data: bytes, start: int = 0) -> tuple[int, int]:
    """Decodes the integer at `data[start]`.

    Returns:
        The integer and the offset after the integer.

    Raises:
        TruncatedData: If the data ends inside the integer.
        ValueError: If the integer is longer than 64 bits.
    """
    result = 0
    shift = 0
    position = start
    while True:
        if position >= len(data) or shift > 63:
            kind = ValueError if shift > 63 else TruncatedData
            raise kind(f"Can't decode a varint at byte {start}: {data[start : start + 12]!r}")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    result &= _MASK64
    return (result - (1 << 64) if result & _SIGN64 else result), position


def skip_varint(data: bytes, position: int) -> int:
    """Returns the offset after the integer at `data[position]`.

    Raises:
        IndexError: If the data ends inside the integer.
    """
    while data[position] >= 0x80:
        position += 1
    return position + 1
