"""User state: the kinds of state that SDKs request, as views of uncommitted cells.

Each state belongs to a key and a window. Reads are lazy, and the cost depends only on the accessed
data. Values and multimap keys are encoded, and the engine compares them as bytes. SDKs build sets
and maps on multimaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from beam_runner_model.window_coders import decode_instant, encode_instant

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells


class State:
    """User state of one key and window, as a view of one state cell. The kinds of state use
    different subkeys.
    """

    __slots__ = ("_cell", "_cells")

    def __init__(self, cells: UncommittedCells, cell: CellId) -> None:
        self._cells = cells
        self._cell = cell

    def clear(self) -> None:
        """Removes all values from the cell."""
        self._cells.clear_cell(self._cell)

    def is_empty(self) -> bool:
        """Returns whether the cell is empty. Reads at most one subkey."""
        return next(self._cells.scan_subkeys(self._cell), None) is None


class BagState(State):
    """User state of the kind bag: values in the order of addition, with duplicates."""

    __slots__ = ()

    def read(self) -> Sequence[bytes]:
        """Returns all values of the bag."""
        return self._cells.read_values(self._cell) or ()

    def add(self, *values: bytes) -> None:
        """Adds values without reading the existing values."""
        self._cells.append_values(self._cell, values)


class CombiningState(BagState):
    """User state of the kind combining: accumulators of a combining function.

    The engine only appends accumulators. `read` returns all of them, and the SDK merges them.
    """

    __slots__ = ()


class ValueState(State):
    """User state of the kind value: a single value (read-modify-write), or no value."""

    __slots__ = ()

    def read(self) -> bytes | None:
        """Returns the value, or None if no value was written."""
        values = self._cells.read_values(self._cell)
        return values[-1] if values else None

    def write(self, value: bytes) -> None:
        """Replaces the state's value."""
        self._cells.replace_values(self._cell, (value,))


class MultimapState(State):
    """User state of the kind multimap: any number of values for each map key, in the order of addition."""

    __slots__ = ()

    def get(self, map_key: bytes) -> Sequence[bytes]:
        """Returns the values of a map key. Reads only this key."""
        return self._cells.read_values(self._cell, map_key) or ()

    def add(self, map_key: bytes, *values: bytes) -> None:
        """Adds values to a map key without reading the existing values."""
        if values:
            self._cells.append_values(self._cell, values, map_key)

    def remove(self, map_key: bytes) -> None:
        """Removes a map key with all its values."""
        self._cells.remove_subkey(self._cell, map_key)

    def keys(self) -> Iterator[bytes]:
        """Returns all map keys in ascending order."""
        return (map_key for map_key, _ in self._cells.scan_subkeys(self._cell))

    def items(self) -> Iterator[tuple[bytes, Sequence[bytes]]]:
        """Returns all map keys with their values, in ascending order of keys."""
        return self._cells.scan_subkeys(self._cell)


class OrderedListState(State):
    """User state of the kind ordered list: values sorted by a 64-bit sort key, usually a time in ms.

    Values with equal sort keys keep their order.
    """

    __slots__ = ()

    def add(self, sort_key: int, *values: bytes) -> None:
        """Adds values at a sort key without reading the existing values."""
        if values:
            self._cells.append_values(self._cell, values, encode_instant(sort_key))

    def read(self, start: int | None = None, end: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yields sort keys and values from `start` (included) to `end` (excluded), ascending; None
        means no bound.

        Reads only the requested range, lazily.
        """
        for subkey, values in self._cells.scan_subkeys(self._cell, *_encode_key_range(start, end)):
            for value in values:
                yield decode_instant(subkey), value

    def clear_range(self, start: int | None = None, end: int | None = None) -> None:
        """Removes all values from `start` (included) to `end` (excluded) without reading them."""
        self._cells.remove_range(self._cell, *_encode_key_range(start, end))


def _encode_key_range(start: int | None, end: int | None) -> tuple[bytes, bytes | None]:
    return b"" if start is None else encode_instant(start), None if end is None else encode_instant(
        end
    )


def move_state_to_merged_window(
    cells: UncommittedCells,
    name: str,
    key: bytes,
    windows: Iterable[bytes],
    into: bytes,
    *,
    single: bool = False,
) -> None:
    """Moves the state of merged windows to the window `into`, one subkey (for example, a map key)
    after the other.

    Bags, combining state and multimaps are concatenated, and ordered lists are interleaved.

    Args:
        into: the encoded window that absorbs the merging windows.
        single: whether the state holds a single value, for which no merge rule exists.

    Raises:
        ValueError: If `single` is True and both windows have a value.
    """
    target = CellId(name, key, into)
    for window in windows:
        if window == into:
            continue
        source = CellId(name, key, window)
        for subkey, values in list(cells.scan_subkeys(source)):
            if single and cells.read_values(target, subkey):
                raise ValueError(
                    f"Can't merge the windows of a key: both have a value in the state {name!r}, and "
                    "a ValueState can't be merged"
                )
            cells.append_values(target, values, subkey)
        cells.clear_cell(source)
