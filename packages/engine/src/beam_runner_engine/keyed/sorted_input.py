"""Time-sorted input: a buffer that releases elements in timestamp order when no earlier element can
arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from beam_runner_model.times import Duration, Timestamp
from beam_runner_model.window_coders import decode_instant, encode_instant

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.due_times import DueTimeQueue
from beam_runner_engine.keyed.holds import WatermarkHolds
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells

_SORTED = "~sorted"
ELEMENTS = b"element"
"""First part of references to buffered elements in queues of due times; sorts before the
first part for timers.
"""


class SortedInputBuffer:
    """Buffer of elements by key, window and timestamp. Each buffered element holds back the
    watermark at its timestamp.

    Elements are due when the watermark passes their timestamp plus the allowed lateness, because an
    earlier element can arrive until then. If this time is after the expiry of the window, elements
    are due at the expiry. The function `expiry` returns the last time (ms) at which an encoded
    window is open.
    """

    def __init__(
        self,
        cells: UncommittedCells,
        agenda: DueTimeQueue,
        holds: WatermarkHolds,
        allowed_lateness: Duration,
        expiry: Callable[[bytes], Timestamp],
    ) -> None:
        self._cells = cells
        self._agenda = agenda
        self._holds = holds
        self._lateness = allowed_lateness
        self._expiry = expiry

    def add_element(self, key: bytes, window: bytes, timestamp: Timestamp, value: Any) -> None:
        """Adds an element to the buffer, and sets the time at which the element is due."""
        cell = CellId(_SORTED, key, window)
        subkey = encode_instant(timestamp)
        if self._cells.read_values(cell, subkey) is None:
            self._agenda.add_entry(
                self._compute_due_time(window, timestamp), (ELEMENTS, key, window, subkey)
            )
            self._holds.move_watermark_hold(None, self._compute_hold(window, timestamp))
        self._cells.append_values(cell, (value,), subkey)

    def take_elements_of_timestamp(
        self, key: bytes, window: bytes, timestamp: Timestamp
    ) -> Sequence[Any]:
        """Removes and returns the buffered elements of one timestamp. The caller has already removed
        their entry from the agenda.
        """
        cell = CellId(_SORTED, key, window)
        subkey = encode_instant(timestamp)
        values = self._cells.read_values(cell, subkey) or ()
        self._cells.remove_subkey(cell, subkey)
        self._holds.move_watermark_hold(self._compute_hold(window, timestamp), None)
        return values

    def compute_hold_of_due_time(self, reference: tuple[bytes, ...]) -> Timestamp:
        """Returns the watermark hold of the buffered elements that an entry of the queue of
        due times names.
        """
        _, _, window, subkey = reference
        return self._compute_hold(window, decode_instant(subkey))

    def move_to_merged_window(self, key: bytes, window: bytes, into: bytes) -> None:
        """Moves the buffered elements of a window to the merged window that contains it."""
        source, target = CellId(_SORTED, key, window), CellId(_SORTED, key, into)
        for subkey, values in list(self._cells.scan_subkeys(source)):
            timestamp = decode_instant(subkey)
            self._agenda.remove_entry(
                self._compute_due_time(window, timestamp), (ELEMENTS, key, window, subkey)
            )
            hold = None
            if self._cells.read_values(target, subkey) is None:
                self._agenda.add_entry(
                    self._compute_due_time(into, timestamp), (ELEMENTS, key, into, subkey)
                )
                hold = self._compute_hold(into, timestamp)
            self._holds.move_watermark_hold(self._compute_hold(window, timestamp), hold)
            self._cells.append_values(target, values, subkey)
        self._cells.clear_cell(source)

    def _compute_due_time(self, window: bytes, timestamp: Timestamp) -> Timestamp:
        return min(timestamp + self._lateness, self._expiry(window))

    def _compute_hold(self, window: bytes, timestamp: Timestamp) -> Timestamp:
        return min(timestamp, self._expiry(window))
