"""State cells of a running bundle: committed contents with the bundle's uncommitted changes on top.

Cells are read from the store lazily and once. Writes stay in memory until the caller commits the
deltas. To roll the changes back, discard the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from beam_runner_engine.keyed.cells import (
    CellDelta,
    CellId,
    Range,
    is_subkey_in_ranges,
    scan_with_changes,
)
from beam_runner_engine.keyed.ports import CellStore


class _CellDeltaBuilder:
    """Draft of a `CellDelta` with the changes to one cell so far."""

    __slots__ = ("added", "cleared", "ranges", "removed")

    def __init__(self) -> None:
        self.cleared = False
        self.ranges: list[Range] = []
        self.removed: set[bytes] = set()
        self.added: dict[bytes, list[Any]] = {}

    def deletes_subkey(self, subkey: bytes) -> bool:
        return self.cleared or subkey in self.removed or is_subkey_in_ranges(subkey, self.ranges)

    def build_cell_delta(self) -> CellDelta:
        added = {subkey: tuple(values) for subkey, values in self.added.items()}
        return CellDelta(self.cleared, tuple(self.ranges), frozenset(self.removed), added)


class UncommittedCells:
    """State cells whose changes aren't committed yet.

    `list_cell_deltas` returns the changes; the object never writes to the store.
    """

    def __init__(self, store: CellStore) -> None:
        self._store = store
        self._drafts: dict[CellId, _CellDeltaBuilder] = {}
        self._fetched: dict[tuple[CellId, bytes], Sequence[Any] | None] = {}

    def read_values(self, cell: CellId, subkey: bytes = b"") -> Sequence[Any] | None:
        """Returns the values of a state cell at a subkey (for example, a map key), in the order of
        adding; None if the subkey is absent.
        """
        draft = self._drafts.get(cell)
        if draft is None:
            return self._fetch_committed_values(cell, subkey)
        base = None if draft.deletes_subkey(subkey) else self._fetch_committed_values(cell, subkey)
        added = draft.added.get(subkey)
        if added is None:
            return base
        return tuple(added) if not base else (*base, *added)

    def scan_subkeys(
        self, cell: CellId, start: bytes = b"", end: bytes | None = None
    ) -> Iterator[tuple[bytes, Sequence[Any]]]:
        """Yields subkeys (for example, map keys) and values of a state cell from `start` (included)
        to `end` (excluded; None: no bound), ascending.

        Don't change the cell while the iterator is in use.
        """
        stored = self._store.scan_subkeys(cell, start, end)
        draft = self._drafts.get(cell)
        if draft is None:
            yield from stored
            return
        yield from scan_with_changes(stored, draft, start, end)

    def append_values(self, cell: CellId, values: Iterable[Any], subkey: bytes = b"") -> None:
        """Appends values at a subkey (for example, a map key) of a state cell. The subkey exists
        afterwards, even if `values` is empty.
        """
        self._get_delta_builder(cell).added.setdefault(subkey, []).extend(values)

    def replace_values(self, cell: CellId, values: Iterable[Any], subkey: bytes = b"") -> None:
        """Replaces the values at a subkey (for example, a map key) of a state cell."""
        draft = self._get_delta_builder(cell)
        draft.added[subkey] = list(values)
        if not draft.cleared:
            draft.removed.add(subkey)

    def remove_subkey(self, cell: CellId, subkey: bytes = b"") -> None:
        """Removes a subkey (for example, a map key) from a state cell."""
        draft = self._get_delta_builder(cell)
        draft.added.pop(subkey, None)
        if not draft.cleared:
            draft.removed.add(subkey)

    def remove_range(self, cell: CellId, start: bytes, end: bytes | None) -> None:
        """Removes all subkeys (for example, map keys) of a state cell from `start` (included) to
        `end` (excluded; None: no bound).
        """
        draft = self._get_delta_builder(cell)
        for subkey in [s for s in draft.added if is_subkey_in_ranges(s, ((start, end),))]:
            del draft.added[subkey]
        if not draft.cleared:
            draft.ranges.append((start, end))

    def clear_cell(self, cell: CellId) -> None:
        """Removes all contents of a state cell."""
        draft = self._drafts[cell] = _CellDeltaBuilder()
        draft.cleared = True

    def list_cell_deltas(self) -> dict[CellId, CellDelta]:
        """Returns the changes of all changed cells, for the caller to commit."""
        return {cell: draft.build_cell_delta() for cell, draft in self._drafts.items()}

    def _fetch_committed_values(self, cell: CellId, subkey: bytes) -> Sequence[Any] | None:
        place = (cell, subkey)
        if place not in self._fetched:
            self._fetched[place] = self._store.read_values(cell, subkey)
        return self._fetched[place]

    def _get_delta_builder(self, cell: CellId) -> _CellDeltaBuilder:
        draft = self._drafts.get(cell)
        if draft is None:
            draft = self._drafts[cell] = _CellDeltaBuilder()
        return draft
