"""User state: the kinds of state cells that SDKs ask runners for, as views of tentative cells.

All are per key and window, read lazily, and cost no more than what they touch. Values, and the keys
of multimaps, which SDKs make sets and maps of, are encoded; the engine compares them as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from beam_runner_model.window_coders import decode_instant, encode_instant

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.tentative import TentativeCells


class State:
    """A view of one cell; the kinds differ in which subkeys they use."""

    __slots__ = ("_cell", "_cells")

    def __init__(self, cells: TentativeCells, cell: CellId) -> None:
        self._cells = cells
        self._cell = cell

    def clear(self) -> None:
        """Removes everything from the cell."""
        self._cells.clear(self._cell)

    def is_empty(self) -> bool:
        """Whether nothing is in the cell; reads at most one subkey."""
        return next(self._cells.scan(self._cell), None) is None


class BagState(State):
    """Values in the order they were added, equal ones too."""

    __slots__ = ()

    def read(self) -> Sequence[bytes]:
        """Returns all values."""
        return self._cells.read(self._cell) or ()

    def add(self, *values: bytes) -> None:
        """Adds values without reading those that are there."""
        self._cells.append(self._cell, values)


class CombiningState(BagState):
    """Accumulators of a combining function, which whoever knows the function merges.

    Adding is blind; `read` gives all that was added, for the SDK to merge.
    """

    __slots__ = ()


class ValueState(State):
    """One value (read-modify-write), or none."""

    __slots__ = ()

    def read(self) -> bytes | None:
        """Returns the value, None if none was written."""
        values = self._cells.read(self._cell)
        return values[-1] if values else None

    def write(self, value: bytes) -> None:
        """Replaces the value."""
        self._cells.replace(self._cell, (value,))


class MultimapState(State):
    """Any number of values per map key, in the order they were added."""

    __slots__ = ()

    def get(self, map_key: bytes) -> Sequence[bytes]:
        """Returns the values of a map key; reads that key only."""
        return self._cells.read(self._cell, map_key) or ()

    def add(self, map_key: bytes, *values: bytes) -> None:
        """Adds values to a map key without reading those that are there."""
        if values:
            self._cells.append(self._cell, values, map_key)

    def remove(self, map_key: bytes) -> None:
        """Removes a map key and all its values."""
        self._cells.remove(self._cell, map_key)

    def keys(self) -> Iterator[bytes]:
        """Returns all map keys, ascending."""
        return (map_key for map_key, _ in self._cells.scan(self._cell))

    def items(self) -> Iterator[tuple[bytes, Sequence[bytes]]]:
        """Returns all map keys and their values, by ascending key."""
        return self._cells.scan(self._cell)


class OrderedListState(State):
    """Values sorted by a 64-bit sort key, often a time in ms; equal sort keys keep their order."""

    __slots__ = ()

    def add(self, sort_key: int, *values: bytes) -> None:
        """Adds values at a sort key without reading those that are there."""
        if values:
            self._cells.append(self._cell, values, encode_instant(sort_key))

    def read(self, start: int | None = None, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Returns sort keys and values from `start` to before `end`, ascending; None is no bound.

        Reads only what is in the range, as the iterator is used.
        """
        for subkey, values in self._cells.scan(self._cell, *_subkeys(start, end)):
            for value in values:
                yield decode_instant(subkey), value

    def clear_range(self, start: int | None = None, end: int | None = None) -> None:
        """Removes all values from `start` to before `end`, without reading them."""
        self._cells.remove_range(self._cell, *_subkeys(start, end))


def _subkeys(start: int | None, end: int | None) -> tuple[bytes, bytes | None]:
    return b"" if start is None else encode_instant(start), None if end is None else encode_instant(
        end
    )


def merge_state(
    cells: TentativeCells,
    name: str,
    key: bytes,
    windows: Iterable[bytes],
    into: bytes,
    *,
    single: bool = False,
) -> None:
    """Moves the state of merged windows to the window they merge into, subkey by subkey.

    Bags, combining state and multimaps join, ordered lists interleave. `single` is for values, which
    have no rule for which of two stays: ValueError if it comes to it.
    """
    target = CellId(name, key, into)
    for window in windows:
        if window == into:
            continue
        source = CellId(name, key, window)
        for subkey, values in list(cells.scan(source)):
            if single and cells.read(target, subkey):
                raise ValueError(
                    f"the windows of a key merge, and both have a value in state {name!r}: "
                    "single values can't be merged"
                )
            cells.append(target, values, subkey)
        cells.clear(source)
