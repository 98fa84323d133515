"""In-memory store of state cells, for tests and single-process runners."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_runner_engine.keyed.cells import CellDelta, CellId, apply_delta


class MemoryCellStore:
    """In-memory `CellStore` with a `commit_deltas` method. `reads` counts the subkeys (for example,
    map keys) that were read.
    """

    def __init__(self) -> None:
        self._cells: dict[CellId, dict[bytes, list[Any]]] = {}
        self._order: dict[CellId, list[bytes]] = {}
        self.reads = 0

    def read_values(self, cell: CellId, subkey: bytes) -> Sequence[Any] | None:
        """Returns the values that a state cell stores at a subkey (for example, a map key), or None if
        the subkey is absent.
        """
        self.reads += 1
        values = self._cells.get(cell, {}).get(subkey)
        return None if values is None else tuple(values)

    def scan_subkeys(
        self, cell: CellId, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, Sequence[Any]]]:
        """Yields subkeys (for example, map keys) and values of a cell from `start` (included) to
        `end` (excluded; None: no bound), ascending.
        """
        contents = self._cells.get(cell, {})
        order = self._order.get(cell)
        if order is None:
            order = self._order[cell] = sorted(contents)
        for subkey in order[bisect_left(order, start) :]:
            if end is not None and subkey >= end:
                return
            self.reads += 1
            yield subkey, tuple(contents[subkey])

    def commit_deltas(self, deltas: Mapping[CellId, CellDelta]) -> None:
        """Commits the changes of a bundle to the store."""
        for cell, delta in deltas.items():
            contents = self._cells.setdefault(cell, {})
            apply_delta(contents, delta)
            self._order.pop(cell, None)
            if not contents:
                del self._cells[cell]

    def copy_cells(self) -> dict[CellId, dict[bytes, list[Any]]]:
        """Returns a copy of the contents of all cells."""
        return {
            cell: {subkey: list(values) for subkey, values in contents.items()}
            for cell, contents in self._cells.items()
        }
