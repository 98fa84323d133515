"""Values in pieces that know which of them were read."""

from __future__ import annotations


class Pieces:
    """Implements ``beam_runner_model.value_pieces.ValuePieces``.

    Attributes:
        read: the numbers of the pieces that were read, in order.
    """

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.read: list[int] = []

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    @property
    def pieces(self) -> int:
        """How many there are."""
        return len(self._pieces)

    def piece(self, number: int) -> bytes:
        """One of them."""
        self.read.append(number)
        return self._pieces[number]
