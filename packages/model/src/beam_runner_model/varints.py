"""Beam's variable-length integers: seven bits a byte, lowest first, the high bit says "more
follows".

This is the `beam:coder:varint:v1` encoding. Negative numbers are encoded as their 64-bit two's
complement.
"""

from __future__ import annotations

_MASK64 = (1 << 64) - 1
_SIGN64 = 1 << 63


class CutOff(IndexError, ValueError):
    """The data ends within a value: what comes in parts may go on in the next one."""


def encode_varint(value: int) -> bytes:
    """Encodes an integer that fits 64 signed bits in one to ten bytes."""
    if not -_SIGN64 <= value < _SIGN64:
        raise ValueError(f"{value} does not fit in 64 signed bits")
    rest = value & _MASK64
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_varint(data: bytes, start: int = 0) -> tuple[int, int]:
    """Decodes the integer that begins at `data[start]`; returns it and the position after it.

    Raises CutOff when the data ends inside the integer, ValueError when it is longer than 64 bits.
    """
    result = 0
    shift = 0
    position = start
    while True:
        if position >= len(data) or shift > 63:
            kind = ValueError if shift > 63 else CutOff
            raise kind(
                f"no variable-length integer at byte {start} of {data[start : start + 12]!r}"
            )
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    result &= _MASK64
    return (result - (1 << 64) if result & _SIGN64 else result), position


def skip_varint(data: bytes, position: int) -> int:
    """Returns the position after the integer that begins at `data[position]`.

    Raises IndexError when the data ends inside it.
    """
    while data[position] >= 0x80:
        position += 1
    return position + 1
