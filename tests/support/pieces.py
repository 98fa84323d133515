"""Values in chunks ("pieces") that record which chunks are read."""

from __future__ import annotations


class Pieces:
    """An implementation of ``beam_runner_model.value_pieces.ValuePieces``.

    Attributes:
        read: numbers of the chunks that were read, in order.
    """

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.read: list[int] = []

    def __len__(self) -> int:
        return sum(map(len, self._pieces))

    @property
    def pieces(self) -> int:
        """Returns the number of chunks."""
        return len(self._pieces)

    def piece(self, number: int) -> bytes:
        """Returns one chunk of values, and records the read."""
        self.read.append(number)
        return self._pieces[number]
