"""DueTimeQueue of a key shard: a queue of all due times of the shard's windows and timers, earliest first.

An agenda is stored in one cell of the shard, ordered by time. A bundle reads only the entries that
are due. Entries that a bundle both adds and removes are never stored.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from beam_runner_model.times import Timestamp
from beam_runner_model.window_coders import decode_instant, encode_instant

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.references import pack_byte_strings, unpack_byte_strings
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells

EVENTS, PROCESSING, EXPIRIES = "~event agenda", "~processing agenda", "~expiry agenda"
"""Names of the state cells that store agendas."""

Reference: TypeAlias = tuple[bytes, ...]
Entry: TypeAlias = tuple[Timestamp, Reference]


class DueTimeQueue:
    """Queue of due times of a key shard. Each entry has a time (ms) and a reference to a window or
    timer; entries are sorted by time and then by reference.
    """

    def __init__(self, cells: UncommittedCells, name: str) -> None:
        self._cells = cells
        self._cell = CellId(name, b"", b"")
        self._new: set[Entry] = set()
        self._heap: list[Entry] = []
        self._gone: set[Entry] = set()
        self._read: set[Entry] = set()
        """Stored entries that are also in the heap, because the bundle skipped them."""
        self._passed: list[Entry] = []
        self._stored: Iterator[tuple[bytes, Sequence[Any]]] = cells.scan_subkeys(self._cell)
        self._next_stored: Entry | None = None
        self._opened = False

    def __getstate__(self) -> tuple[Any, ...]:
        return self._cells, self._cell, self._new, self._heap, self._gone

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._cells, self._cell, self._new, self._heap, self._gone = state
        self._read, self._passed = set(), []
        self._next_stored = None
        self._restart_scan()

    def add_entry(self, time: Timestamp, reference: Reference) -> None:
        """Adds the due time of a window or timer. Restores the stored entry if this bundle removed it."""
        entry = (time, reference)
        if entry in self._gone:
            self._gone.discard(entry)
            self._restart_scan()
        elif entry not in self._new:
            self._new.add(entry)
            heapq.heappush(self._heap, entry)

    def remove_entry(self, time: Timestamp, reference: Reference) -> None:
        """Removes the due time of a window or timer, which this bundle or an earlier bundle added."""
        entry = (time, reference)
        if entry in self._new:
            self._new.discard(entry)
        else:
            self._gone.add(entry)
            self._read.discard(entry)

    def hide_earliest_entry(self, time: Timestamp, reference: Reference) -> None:
        """Hides an entry, which must be the earliest entry, until the next `restore_hidden_entries` call."""
        entry = (time, reference)
        while self._heap and self._heap[0] == entry:
            heapq.heappop(self._heap)
        if entry not in self._new:
            self._read.add(entry)
        self._passed.append(entry)

    def restore_hidden_entries(self) -> None:
        """Restores the entries that `hide_earliest_entry` hid."""
        for entry in self._passed:
            heapq.heappush(self._heap, entry)
        self._passed.clear()

    def reschedule_entry(
        self, old: Timestamp | None, new: Timestamp | None, reference: Reference
    ) -> None:
        """Moves the due time of a window or timer from `old` to `new` (ms); None stands for no entry."""
        if old != new:
            if old is not None:
                self.remove_entry(old, reference)
            if new is not None:
                self.add_entry(new, reference)

    def get_earliest_entry(self) -> Entry | None:
        """Returns the earliest entry of the queue of due times, or None if the agenda is
        empty.
        """
        while self._heap and self._heap[0] not in self._new and self._heap[0] not in self._read:
            heapq.heappop(self._heap)
        stored = self._peek_stored_entry()
        new = self._heap[0] if self._heap else None
        if stored is None or new is None:
            return stored or new
        return min(stored, new)

    def scan_entries(self) -> Iterator[Entry]:
        """Yields all stored entries, in order. Call this method before any change."""
        for subkey, _ in self._cells.scan_subkeys(self._cell):
            yield decode_instant(subkey), unpack_byte_strings(subkey, 8)

    def pop_due_entry(self, until: Timestamp) -> Entry | None:
        """Removes and returns the earliest entry if its time is at most `until` (ms), otherwise
        returns None.
        """
        entry = self.get_earliest_entry()
        if entry is None or entry[0] > until:
            return None
        self.remove_entry(*entry)
        return entry

    def save_changes(self) -> None:
        """Writes the added and removed entries to the agenda's state cell. Don't use the agenda
        after this call.
        """
        for time, reference in sorted(self._gone):
            self._cells.remove_subkey(
                self._cell, encode_instant(time) + pack_byte_strings(reference)
            )
        for time, reference in sorted(self._new):
            self._cells.replace_values(
                self._cell, (), encode_instant(time) + pack_byte_strings(reference)
            )

    def _peek_stored_entry(self) -> Entry | None:
        if not self._opened:
            self._opened = True
            self._read_next_stored_entry()
        while self._next_stored in self._gone or self._next_stored in self._read:
            self._read_next_stored_entry()
        return self._next_stored

    def _read_next_stored_entry(self) -> None:
        subkey = next(self._stored, None)
        if subkey is None:
            self._next_stored = None
        else:
            self._next_stored = (decode_instant(subkey[0]), unpack_byte_strings(subkey[0], 8))

    def _restart_scan(self) -> None:
        self._stored = self._cells.scan_subkeys(self._cell)
        self._opened = False
