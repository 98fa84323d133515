"""Encoded values of a group (a key's values), read in parts (pieces) if they exceed the available
memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

PIECE_BYTES = 1 << 20
"""Approximate size of a piece of elements, in bytes."""


@attrs.frozen(eq=False)
class ValuePieces:
    """Nested encodings of a group's values in pieces, for groups that are too large for one
    ``bytes``. ``len`` returns the size in bytes.

    Any thread can read the pieces any number of times until the bundle finishes. Over the Fn API,
    the pieces are readable until the next :class:`~beam_runner_model.chunks.FlushBarrier`.

    Attributes:
        size: the total size in bytes.
        pieces: the number of pieces.
        piece: a function that reads the piece with a given number. A piece consists of complete
            values and is about 1 MiB, or larger if a single value is larger.
    """

    size: int
    pieces: int
    piece: Callable[[int], bytes]

    def __len__(self) -> int:
        return self.size


GroupValues: TypeAlias = bytes | memoryview | ValuePieces
"""Nested encodings of the values of a group."""
