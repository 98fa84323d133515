"""References: tuples of byte strings packed into one, as subkeys of the engine's own cells."""

from __future__ import annotations

from beam_runner_engine.values.varints import decode_varint, encode_varint


def pack(parts: tuple[bytes, ...]) -> bytes:
    """Packs byte strings, each behind its length, so that `unpack` gives them back."""
    return b"".join([encode_varint(len(part)) + part for part in parts])


def unpack(data: bytes, start: int = 0) -> tuple[bytes, ...]:
    """Returns the byte strings packed from `data[start]` to its end; ValueError if they are not."""
    parts = []
    position = start
    while position < len(data):
        length, position = decode_varint(data, position)
        if length < 0 or position + length > len(data):
            raise ValueError(f"{data!r} is cut short: {length} bytes should follow byte {position}")
        parts.append(data[position : position + length])
        position += length
    return tuple(parts)
