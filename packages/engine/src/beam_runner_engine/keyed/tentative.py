"""Tentative cells: committed cells with the uncommitted changes of a bundle on top.

Cells are read from the store lazily and once. Writes stay in memory until the host commits the
deltas. Discarding the object rolls the changes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from beam_runner_engine.keyed.cells import CellDelta, CellId, Range, is_in_ranges, scan_with_layer
from beam_runner_engine.keyed.ports import CellStore


class _DeltaDraft:
    """Draft of a `CellDelta` with the changes to one cell so far."""

    __slots__ = ("added", "cleared", "ranges", "removed")

    def __init__(self) -> None:
        self.cleared = False
        self.ranges: list[Range] = []
        self.removed: set[bytes] = set()
        self.added: dict[bytes, list[Any]] = {}

    def hides_subkey(self, subkey: bytes) -> bool:
        return self.cleared or subkey in self.removed or is_in_ranges(subkey, self.ranges)

    def build_delta(self) -> CellDelta:
        added = {subkey: tuple(values) for subkey, values in self.added.items()}
        return CellDelta(self.cleared, tuple(self.ranges), frozenset(self.removed), added)


class TentativeCells:
    """Cells of a store with uncommitted changes.

    `list_deltas` returns the changes; the object never writes to the store.
    """

    def __init__(self, store: CellStore) -> None:
        self._store = store
        self._drafts: dict[CellId, _DeltaDraft] = {}
        self._fetched: dict[tuple[CellId, bytes], Sequence[Any] | None] = {}

    def read_values(self, cell: CellId, subkey: bytes = b"") -> Sequence[Any] | None:
        """Returns the values at a subkey in the order of adding, or None if the subkey is absent."""
        draft = self._drafts.get(cell)
        if draft is None:
            return self._fetch_committed_values(cell, subkey)
        base = None if draft.hides_subkey(subkey) else self._fetch_committed_values(cell, subkey)
        added = draft.added.get(subkey)
        if added is None:
            return base
        return tuple(added) if not base else (*base, *added)

    def scan_subkeys(
        self, cell: CellId, start: bytes = b"", end: bytes | None = None
    ) -> Iterator[tuple[bytes, Sequence[Any]]]:
        """Yields subkeys and values from `start` (included) to `end` (excluded; None: no bound),
        ascending.

        Don't change the cell while the iterator is in use.
        """
        stored = self._store.scan_subkeys(cell, start, end)
        draft = self._drafts.get(cell)
        if draft is None:
            yield from stored
            return
        yield from scan_with_layer(stored, draft, start, end)

    def append_values(self, cell: CellId, values: Iterable[Any], subkey: bytes = b"") -> None:
        """Appends values at a subkey. The subkey exists afterwards, even without values."""
        self._get_draft(cell).added.setdefault(subkey, []).extend(values)

    def replace_values(self, cell: CellId, values: Iterable[Any], subkey: bytes = b"") -> None:
        """Replaces the values at a subkey."""
        draft = self._get_draft(cell)
        draft.added[subkey] = list(values)
        if not draft.cleared:
            draft.removed.add(subkey)

    def remove_subkey(self, cell: CellId, subkey: bytes = b"") -> None:
        """Removes a subkey from a cell."""
        draft = self._get_draft(cell)
        draft.added.pop(subkey, None)
        if not draft.cleared:
            draft.removed.add(subkey)

    def remove_range(self, cell: CellId, start: bytes, end: bytes | None) -> None:
        """Removes all subkeys from `start` (included) to `end` (excluded; None: no bound)."""
        draft = self._get_draft(cell)
        for subkey in [s for s in draft.added if is_in_ranges(s, ((start, end),))]:
            del draft.added[subkey]
        if not draft.cleared:
            draft.ranges.append((start, end))

    def clear_cell(self, cell: CellId) -> None:
        """Removes all subkeys of a cell."""
        draft = self._drafts[cell] = _DeltaDraft()
        draft.cleared = True

    def list_deltas(self) -> dict[CellId, CellDelta]:
        """Returns the changes of all changed cells, for the host to commit."""
        return {cell: draft.build_delta() for cell, draft in self._drafts.items()}

    def _fetch_committed_values(self, cell: CellId, subkey: bytes) -> Sequence[Any] | None:
        place = (cell, subkey)
        if place not in self._fetched:
            self._fetched[place] = self._store.read_values(cell, subkey)
        return self._fetched[place]

    def _get_draft(self, cell: CellId) -> _DeltaDraft:
        draft = self._drafts.get(cell)
        if draft is None:
            draft = self._drafts[cell] = _DeltaDraft()
        return draft
