"""Pauses before the next check of a Kafka partition without new records."""

from __future__ import annotations


class IdlePauses:
    """Pauses of a DoFn between checks of a partition. They double while no records arrive.

    Args:
        first: seconds of the first pause.
        longest: maximum seconds.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._next: dict[tuple[str, int], float] = {}

    def take_next_pause(self, partition: tuple[str, int]) -> float:
        """Returns the seconds of the next pause."""
        pause = min(self._next.get(partition, self._first), self._longest)
        self._next[partition] = 2 * pause
        return pause

    def reset(self, partition: tuple[str, int]) -> None:
        """Resets the pause of a partition to the first pause."""
        self._next.pop(partition, None)
