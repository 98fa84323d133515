"""State cells, which store all keyed state, and deltas, which describe changes to cells.

A cell is an ordered map from subkeys (such as the keys of a map state) to lists of values. Every
kind of state fits this form: a bag has one subkey, a set has no values, and an ordered list uses
its sort keys as subkeys. A store therefore needs to support cells only. The engine returns changes
as deltas, so the cost of a bundle depends on its changes and not on the size of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import attrs


class CellId(NamedTuple):
    """ID of a state cell: the name of the state, the encoded key and the encoded window.

    Names that start with `~` are reserved for the engine. A cell with a reserved name and the key
    `b""` belongs to the whole shard.
    """

    name: str
    key: bytes
    window: bytes


Range: TypeAlias = tuple[bytes, bytes | None]
"""Range of subkeys: the first subkey, included, and the end, excluded. None as the end means no
upper bound.
"""


@attrs.frozen
class CellDelta:
    """Change to a state cell, as steps that apply in the order of the attributes.

    Attributes:
        cleared: whether the change removes all subkeys first.
        removed_ranges: the ranges of subkeys to remove.
        removed: the subkeys to remove.
        added: the values to append at each subkey. An empty tuple creates the subkey without
            values.
    """

    cleared: bool = False
    removed_ranges: tuple[Range, ...] = ()
    removed: frozenset[bytes] = frozenset()
    added: Mapping[bytes, tuple[Any, ...]] = attrs.field(factory=dict)

    def deletes_subkey(self, subkey: bytes) -> bool:
        """Returns whether the delta removes the previous values at this subkey (for example, a map
        key).
        """
        return (
            self.cleared
            or subkey in self.removed
            or is_subkey_in_ranges(subkey, self.removed_ranges)
        )

    def combine_with(self, later: CellDelta) -> CellDelta:
        """Returns a single delta with the effect of this delta followed by `later`."""
        added = {
            subkey: tuple(values)
            for subkey, values in self.added.items()
            if not later.deletes_subkey(subkey)
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


class CellChanges(Protocol):
    """Changes on top of the contents of a state cell: a `CellDelta`, or the changes of a running bundle."""

    @property
    def added(self) -> Mapping[bytes, Sequence[Any]]: ...

    def deletes_subkey(self, subkey: bytes) -> bool: ...


def scan_with_changes(
    below: Iterable[tuple[bytes, Sequence[Any]]],
    layer: CellChanges,
    start: bytes,
    end: bytes | None,
) -> Iterator[tuple[bytes, Sequence[Any]]]:
    """Yields subkeys (for example, map keys) and values of a state cell after a layer of changes,
    in ascending order.

    Args:
        below: the subkeys and values without the layer, in ascending order, from `start` to `end`.
        layer: the changes.
        start: the first subkey, included.
        end: the end of the range, excluded; None means no upper bound.
    """
    added = sorted(s for s in layer.added if is_subkey_in_ranges(s, ((start, end),)))
    position = 0
    for subkey, values in below:
        while position < len(added) and added[position] < subkey:
            yield added[position], tuple(layer.added[added[position]])
            position += 1
        hidden = layer.deletes_subkey(subkey)
        if position < len(added) and added[position] == subkey:
            position += 1
            here = layer.added[subkey]
            yield subkey, tuple(here) if hidden else (*values, *here)
        elif not hidden:
            yield subkey, values
    for subkey in added[position:]:
        yield subkey, tuple(layer.added[subkey])


def is_subkey_in_ranges(subkey: bytes, ranges: Iterable[Range]) -> bool:
    """Returns whether the subkey (for example, a map key) is in any of the ranges."""
    return any(start <= subkey and (end is None or subkey < end) for start, end in ranges)


def apply_delta(contents: dict[bytes, list[Any]], delta: CellDelta) -> None:
    """Applies a delta to the contents of a cell in place. The commit of a store must have the same
    effect.
    """
    if delta.cleared:
        contents.clear()
    if delta.removed_ranges:
        for subkey in [s for s in contents if is_subkey_in_ranges(s, delta.removed_ranges)]:
            del contents[subkey]
    for subkey in delta.removed:
        contents.pop(subkey, None)
    for subkey, values in delta.added.items():
        contents.setdefault(subkey, []).extend(values)
