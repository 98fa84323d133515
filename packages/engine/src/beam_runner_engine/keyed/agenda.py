"""The agenda: what of a whole shard is due when, earliest first, without looking at every key.

It lies in one cell of the shard, ordered by time; a bundle reads the beginning of it only, as far
as things are due, and what it adds and takes away in one go never gets there.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from beam_runner_model.times import Timestamp
from beam_runner_model.window_coders import decode_instant, encode_instant

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.references import pack, unpack
from beam_runner_engine.keyed.tentative import TentativeCells

Reference: TypeAlias = tuple[bytes, ...]
Entry: TypeAlias = tuple[Timestamp, Reference]


class Agenda:
    """Entries of a time (ms) and a reference, each at most once, taken in order of both."""

    def __init__(self, cells: TentativeCells, name: str) -> None:
        self._cells = cells
        self._cell = CellId(name, b"", b"")
        self._new: set[Entry] = set()
        self._heap: list[Entry] = []
        self._gone: set[Entry] = set()
        self._read: set[Entry] = set()
        """Stored entries that lie in the heap, since they were passed over."""
        self._passed: list[Entry] = []
        self._stored: Iterator[tuple[bytes, Sequence[Any]]] = cells.scan(self._cell)
        self._next_stored: Entry | None = None
        self._opened = False

    def __getstate__(self) -> tuple[Any, ...]:
        return self._cells, self._cell, self._new, self._heap, self._gone

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._cells, self._cell, self._new, self._heap, self._gone = state
        self._read, self._passed = set(), []
        self._next_stored = None
        self._rewind()

    def add(self, time: Timestamp, reference: Reference) -> None:
        """Adds an entry; one that was stored and removed before may be added again."""
        entry = (time, reference)
        if entry in self._gone:
            self._gone.discard(entry)
            self._rewind()
        elif entry not in self._new:
            self._new.add(entry)
            heapq.heappush(self._heap, entry)

    def remove(self, time: Timestamp, reference: Reference) -> None:
        """Removes an entry that was added in this bundle or an earlier one."""
        entry = (time, reference)
        if entry in self._new:
            self._new.discard(entry)
        else:
            self._gone.add(entry)
            self._read.discard(entry)

    def pass_over(self, time: Timestamp, reference: Reference) -> None:
        """Leaves out the earliest entry, which this is, until `look_again`."""
        entry = (time, reference)
        while self._heap and self._heap[0] == entry:
            heapq.heappop(self._heap)
        if entry not in self._new:
            self._read.add(entry)
        self._passed.append(entry)

    def look_again(self) -> None:
        """Puts back the entries that were passed over."""
        for entry in self._passed:
            heapq.heappush(self._heap, entry)
        self._passed.clear()

    def move(self, old: Timestamp | None, new: Timestamp | None, reference: Reference) -> None:
        """Removes a reference from one time and adds it at another; None is no time."""
        if old != new:
            if old is not None:
                self.remove(old, reference)
            if new is not None:
                self.add(new, reference)

    def first(self) -> Entry | None:
        """Returns the earliest entry, None if there is none."""
        while self._heap and self._heap[0] not in self._new and self._heap[0] not in self._read:
            heapq.heappop(self._heap)
        stored = self._peek()
        new = self._heap[0] if self._heap else None
        if stored is None or new is None:
            return stored or new
        return min(stored, new)

    def pop_due(self, until: Timestamp) -> Entry | None:
        """Removes and returns the earliest entry whose time is `until` or before, None without."""
        entry = self.first()
        if entry is None or entry[0] > until:
            return None
        self.remove(*entry)
        return entry

    def save(self) -> None:
        """Writes what was added and removed to the cell; the agenda is not to be used after it."""
        for time, reference in sorted(self._gone):
            self._cells.remove(self._cell, encode_instant(time) + pack(reference))
        for time, reference in sorted(self._new):
            self._cells.replace(self._cell, (), encode_instant(time) + pack(reference))

    def _peek(self) -> Entry | None:
        if not self._opened:
            self._opened = True
            self._advance()
        while self._next_stored in self._gone or self._next_stored in self._read:
            self._advance()
        return self._next_stored

    def _advance(self) -> None:
        subkey = next(self._stored, None)
        if subkey is None:
            self._next_stored = None
        else:
            self._next_stored = (decode_instant(subkey[0]), unpack(subkey[0], 8))

    def _rewind(self) -> None:
        self._stored = self._cells.scan(self._cell)
        self._opened = False
