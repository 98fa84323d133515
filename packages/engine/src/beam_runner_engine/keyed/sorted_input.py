"""Time-sorted input: elements wait until none before them can come, then go on in order of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from beam_runner_model.times import Duration, Timestamp
from beam_runner_model.window_coders import decode_instant, encode_instant

from beam_runner_engine.keyed.agenda import Agenda
from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.holds import Holds
from beam_runner_engine.keyed.tentative import TentativeCells

_SORTED = "~sorted"
ELEMENTS = b"element"
"""What references of waiting elements begin with on an agenda; sorts before those of timers."""


class SortedInput:
    """Elements that wait, by key, window and timestamp; each timestamp that waits is a hold.

    They wait for the watermark to pass their timestamp by the allowed lateness, since until then
    an earlier element that is not dropped may come. Elements whose timestamp is beyond their window
    wait until it expires. `expiry` returns the last time an encoded window is open.
    """

    def __init__(
        self,
        cells: TentativeCells,
        agenda: Agenda,
        holds: Holds,
        allowed_lateness: Duration,
        expiry: Callable[[bytes], Timestamp],
    ) -> None:
        self._cells = cells
        self._agenda = agenda
        self._holds = holds
        self._lateness = allowed_lateness
        self._expiry = expiry

    def add(self, key: bytes, window: bytes, timestamp: Timestamp, value: Any) -> None:
        """Lets an element wait."""
        cell = CellId(_SORTED, key, window)
        subkey = encode_instant(timestamp)
        if self._cells.read(cell, subkey) is None:
            self._agenda.add(self._due(window, timestamp), (ELEMENTS, key, window, subkey))
            self._holds.move(None, self._hold(window, timestamp))
        self._cells.append(cell, (value,), subkey)

    def take(self, key: bytes, window: bytes, timestamp: Timestamp) -> Sequence[Any]:
        """Takes the elements of one timestamp, whose entry was taken from the agenda."""
        cell = CellId(_SORTED, key, window)
        subkey = encode_instant(timestamp)
        values = self._cells.read(cell, subkey) or ()
        self._cells.remove(cell, subkey)
        self._holds.move(self._hold(window, timestamp), None)
        return values

    def move(self, key: bytes, window: bytes, into: bytes) -> None:
        """Moves what waits in a window to the one it was merged into."""
        source, target = CellId(_SORTED, key, window), CellId(_SORTED, key, into)
        for subkey, values in list(self._cells.scan(source)):
            timestamp = decode_instant(subkey)
            self._agenda.remove(self._due(window, timestamp), (ELEMENTS, key, window, subkey))
            hold = None
            if self._cells.read(target, subkey) is None:
                self._agenda.add(self._due(into, timestamp), (ELEMENTS, key, into, subkey))
                hold = self._hold(into, timestamp)
            self._holds.move(self._hold(window, timestamp), hold)
            self._cells.append(target, values, subkey)
        self._cells.clear(source)

    def _due(self, window: bytes, timestamp: Timestamp) -> Timestamp:
        return min(timestamp + self._lateness, self._expiry(window))

    def _hold(self, window: bytes, timestamp: Timestamp) -> Timestamp:
        return min(timestamp, self._expiry(window))
