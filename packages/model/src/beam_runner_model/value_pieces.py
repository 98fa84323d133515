"""Encoded values that may be too many for memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

PIECE_BYTES = 1 << 20
"""Elements are handed on and kept in pieces of about so many bytes."""


@attrs.frozen(eq=False)
class ValuePieces:
    """The nested encodings of a group's values, too many to be held as one ``bytes``; its length is their bytes.

    They may be read as often as wanted, from any thread, until the bundle ends. Over the Fn API
    until the next :class:`~beam_runner_model.bundles.Settle`.

    Attributes:
        size: how many bytes they are in all.
        pieces: how many pieces they are in.
        piece: reads one by its number: some whole values, about 1 MiB unless one of them is larger.
    """

    size: int
    pieces: int
    piece: Callable[[int], bytes]

    def __len__(self) -> int:
        return self.size


GroupValues: TypeAlias = bytes | memoryview | ValuePieces
"""The nested encodings of the values of a group."""
