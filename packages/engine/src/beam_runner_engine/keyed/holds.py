"""Watermark holds of a key shard: the number of holds at each event time. The output watermark must
not pass the earliest hold.

The counts are stored in one state cell of the shard, a map whose keys are the times. A bundle reads
and writes only the times that it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from beam_runner_model.times import Timestamp
from beam_runner_model.window_coders import decode_instant, encode_instant

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells

HOLDS = CellId("~holds", b"", b"")
"""Cell that stores the number of holds at each time."""
REPORTED_HOLDS = 64
"""Maximum number of holds in a summary, earliest first. Only the earliest hold limits the
watermark.
"""


class WatermarkHolds:
    """Counted watermark holds. Each added hold must be released once."""

    def __init__(self, cells: UncommittedCells) -> None:
        self._cells = cells
        self._changes: Counter[Timestamp] = Counter()

    def move_watermark_hold(self, old: Timestamp | None, new: Timestamp | None) -> None:
        """Releases the watermark hold at `old` and adds a watermark hold at `new` (event time, ms);
        None stands for no hold.
        """
        if old != new:
            if old is not None:
                self._changes[old] -= 1
            if new is not None:
                self._changes[new] += 1

    def add_watermark_holds(self, holds: Iterable[Timestamp | None]) -> None:
        """Adds watermark holds (event time, ms); None stands for no hold."""
        for hold in holds:
            self.move_watermark_hold(None, hold)

    def save_hold_counts(self) -> None:
        """Writes the changed numbers of holds to the state cell.

        Raises:
            ValueError: If more holds were released than added.
        """
        for time, change in self._changes.items():
            if not change:
                continue
            subkey = encode_instant(time)
            stored = self._cells.read_values(HOLDS, subkey)
            count = (stored[0] if stored else 0) + change
            if count < 0:
                raise ValueError(
                    f"Can't release the watermark hold at {time} ms: no such hold was added"
                )
            if count:
                self._cells.replace_values(HOLDS, (count,), subkey)
            else:
                self._cells.remove_subkey(HOLDS, subkey)
        self._changes.clear()

    def list_earliest_watermark_holds(self) -> tuple[tuple[Timestamp, int], ...]:
        """Returns the earliest saved watermark holds and their counts, at most `REPORTED_HOLDS`."""
        holds = []
        for subkey, (count,) in self._cells.scan_subkeys(HOLDS):
            holds.append((decode_instant(subkey), count))
            if len(holds) == REPORTED_HOLDS:
                break
        return tuple(holds)
