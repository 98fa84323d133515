"""Encoded values that may be too many for memory."""

from __future__ import annotations

from typing import Protocol, TypeAlias


class ValuePieces(Protocol):
    """The nested encodings of a group's values, too many to be held as one ``bytes``.

    They may be read as often as wanted, from any thread, until the bundle ends. Over the Fn API
    until the next :class:`~beam_runner_worker.records.Settle`.
    """

    def __len__(self) -> int:
        """How many bytes they are in all."""

    @property
    def pieces(self) -> int:
        """How many pieces they are in."""

    def piece(self, number: int) -> bytes:
        """Some whole values, about 1 MiB unless one of them is larger."""


GroupValues: TypeAlias = bytes | memoryview | ValuePieces
"""The nested encodings of the values of a group."""
