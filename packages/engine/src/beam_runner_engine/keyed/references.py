"""References to windows and timers: tuples of byte strings packed into one byte string, with the same
sort order.

A packed part is the byte 1, the part with 255 inserted after every byte 0, and the byte 0. A
shorter part or tuple therefore sorts before a longer one with the same prefix.
"""

from __future__ import annotations


def pack_byte_strings(parts: tuple[bytes, ...]) -> bytes:
    """Packs byte strings into one byte string. The sort order of packed tuples equals the order of
    the tuples.
    """
    return b"".join([b"\x01" + part.replace(b"\x00", b"\x00\xff") + b"\x00" for part in parts])


def unpack_byte_strings(data: bytes, start: int = 0) -> tuple[bytes, ...]:
    """Unpacks the byte strings from `data[start]` to the end of the data.

    Raises:
        ValueError: If the data is not a packed reference.
    """
    parts = []
    position = start
    while position < len(data):
        end = data.find(b"\x00", position)
        while end != -1 and data[end + 1 : end + 2] == b"\xff":
            end = data.find(b"\x00", end + 2)
        if end == -1 or data[position] != 1:
            raise ValueError(
                f"Can't unpack the reference {data!r}: invalid data at byte {position}"
            )
        parts.append(data[position + 1 : end].replace(b"\x00\xff", b"\x00"))
        position = end + 1
    return tuple(parts)
