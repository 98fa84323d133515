"""Counted holds of a shard: which times its output watermark must not pass, and for how many
reasons.

They lie in one cell of the shard, a count per time; a bundle reads and writes the times it
changes.
"""

from __future__ import annotations

from collections import Counter

from beam_runner_model.times import Timestamp
from beam_runner_model.window_coders import decode_instant, encode_instant

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.tentative import TentativeCells

_CELL = CellId("~holds", b"", b"")
REPORTED_HOLDS = 64
"""How many of the earliest holds a summary tells; only the earliest limits the watermark."""


class Holds:
    """Adds and releases holds; every hold that is added must be released once."""

    def __init__(self, cells: TentativeCells) -> None:
        self._cells = cells
        self._changes: Counter[Timestamp] = Counter()

    def move(self, old: Timestamp | None, new: Timestamp | None) -> None:
        """Releases one hold and adds another; None is no hold."""
        if old != new:
            if old is not None:
                self._changes[old] -= 1
            if new is not None:
                self._changes[new] += 1

    def save(self) -> None:
        """Writes the changed counts to the cell."""
        for time, change in self._changes.items():
            if not change:
                continue
            subkey = encode_instant(time)
            stored = self._cells.read(_CELL, subkey)
            count = (stored[0] if stored else 0) + change
            if count < 0:
                raise ValueError(f"a hold at {time} ms is released that nothing had added")
            if count:
                self._cells.replace(_CELL, (count,), subkey)
            else:
                self._cells.remove(_CELL, subkey)
        self._changes.clear()

    def earliest(self) -> tuple[tuple[Timestamp, int], ...]:
        """Returns the earliest holds that are saved and their counts, at most `REPORTED_HOLDS`."""
        holds = []
        for subkey, (count,) in self._cells.scan(_CELL):
            holds.append((decode_instant(subkey), count))
            if len(holds) == REPORTED_HOLDS:
                break
        return tuple(holds)
