"""Cells: the one shape in which all keyed state is kept, and how it changes.

A cell is an ordered map from subkeys to lists of values. Every kind of state is such a map (a bag
has one subkey, a set no values, an ordered list sorts by its subkeys), so a store that can do cells
can do them all. Changes leave the engine as deltas, so that what a bundle costs depends on what it
changed, not on what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import attrs


class CellId(NamedTuple):
    """Which cell: the state's name, the encoded key, and the encoded window.

    Names that start with `~` are the engine's own. The cells of a whole shard have the key `b""`
    and the engine's names, and no other cell has both.
    """

    name: str
    key: bytes
    window: bytes


Range: TypeAlias = tuple[bytes, bytes | None]
"""Subkeys from the first, included, to the second, excluded; None is after all subkeys."""


@attrs.frozen
class CellDelta:
    """A change to one cell, made of steps that apply in this order.

    `cleared` removes everything, `removed_ranges` and `removed` some subkeys, and `added` appends
    values to what is left at a subkey. An added empty list makes the subkey present.
    """

    cleared: bool = False
    removed_ranges: tuple[Range, ...] = ()
    removed: frozenset[bytes] = frozenset()
    added: Mapping[bytes, tuple[Any, ...]] = attrs.field(factory=dict)

    def hides(self, subkey: bytes) -> bool:
        """Whether what the cell had at this subkey is gone after the delta."""
        return self.cleared or subkey in self.removed or in_ranges(subkey, self.removed_ranges)

    def then(self, later: CellDelta) -> CellDelta:
        """Returns the one delta that does what this and then `later` do."""
        added = {
            subkey: tuple(values)
            for subkey, values in self.added.items()
            if not later.hides(subkey)
        }
        for subkey, values in later.added.items():
            added[subkey] = (*added.get(subkey, ()), *values)
        if later.cleared:
            return CellDelta(cleared=True, added=added)
        return CellDelta(
            cleared=self.cleared,
            removed_ranges=self.removed_ranges + later.removed_ranges,
            removed=self.removed | later.removed,
            added=added,
        )


class Layer(Protocol):
    """What lies over the contents of a cell: a delta, or one that is still being made."""

    @property
    def added(self) -> Mapping[bytes, Sequence[Any]]: ...

    def hides(self, subkey: bytes) -> bool: ...


def scan_over(
    below: Iterable[tuple[bytes, Sequence[Any]]], layer: Layer, start: bytes, end: bytes | None
) -> Iterator[tuple[bytes, Sequence[Any]]]:
    """Returns subkeys and values from `start` to before `end` (None: the last) with a layer over them.

    `below` has those without it; both are in ascending order.
    """
    added = sorted(s for s in layer.added if in_ranges(s, ((start, end),)))
    position = 0
    for subkey, values in below:
        while position < len(added) and added[position] < subkey:
            yield added[position], tuple(layer.added[added[position]])
            position += 1
        hidden = layer.hides(subkey)
        if position < len(added) and added[position] == subkey:
            position += 1
            here = layer.added[subkey]
            yield subkey, tuple(here) if hidden else (*values, *here)
        elif not hidden:
            yield subkey, values
    for subkey in added[position:]:
        yield subkey, tuple(layer.added[subkey])


def in_ranges(subkey: bytes, ranges: Iterable[Range]) -> bool:
    """Whether any of the ranges holds the subkey."""
    return any(start <= subkey and (end is None or subkey < end) for start, end in ranges)


def apply_delta(contents: dict[bytes, list[Any]], delta: CellDelta) -> None:
    """Changes a cell's contents as the delta says: what a store's commit must amount to."""
    if delta.cleared:
        contents.clear()
    if delta.removed_ranges:
        for subkey in [s for s in contents if in_ranges(s, delta.removed_ranges)]:
            del contents[subkey]
    for subkey in delta.removed:
        contents.pop(subkey, None)
    for subkey, values in delta.added.items():
        contents.setdefault(subkey, []).extend(values)
