"""References: tuples of byte strings packed into one, in a way that sorts as the tuples do.

Each part is a byte 1, the part with every byte 0 followed by a byte 255, and a byte 0. So a part
that ends sorts before one that goes on, and a tuple that ends before one that goes on.
"""

from __future__ import annotations


def pack(parts: tuple[bytes, ...]) -> bytes:
    """Packs byte strings so that `unpack` gives them back and the result sorts as they do."""
    return b"".join([b"\x01" + part.replace(b"\x00", b"\x00\xff") + b"\x00" for part in parts])


def unpack(data: bytes, start: int = 0) -> tuple[bytes, ...]:
    """Returns the byte strings packed from `data[start]` to its end; ValueError if they are not."""
    parts = []
    position = start
    while position < len(data):
        end = data.find(b"\x00", position)
        while end != -1 and data[end + 1 : end + 2] == b"\xff":
            end = data.find(b"\x00", end + 2)
        if end == -1 or data[position] != 1:
            raise ValueError(f"{data!r} is no packed reference: see byte {position}")
        parts.append(data[position + 1 : end].replace(b"\x00\xff", b"\x00"))
        position = end + 1
    return tuple(parts)
