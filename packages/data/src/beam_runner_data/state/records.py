"""What a state segment holds: rows of cells and what of older segments they hide.

A segment is a sorted sequence of *entries*, tuples of five:

    (cell, HIDES, b"",    cleared,  ranges)   at most one per cell, before its rows
    (cell, ROW,   subkey, replaces, data)     ascending by subkey

Of what older segments say about a cell, an entry HIDES takes away everything (`cleared`) or ranges
of subkeys, and a ROW that replaces takes away its subkey. What is left at a subkey comes before
`data`, the encoded values added; None adds nothing and leaves the subkey absent. Values are bytes,
strings, numbers of 64 bits, None, or tuples of these.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import attrs
import msgpack
from beam_runner_engine.keyed.cells import CellId, Range

HIDES = 0
ROW = 1

Entry: TypeAlias = tuple[bytes, int, bytes, bool, Any]
"""Entries compare as they are to be sorted; two with the same cell, kind and subkey never meet."""

_LENGTHS = struct.Struct(">IH")
_ROW_OVERHEAD = 16


@attrs.frozen
class Hides:
    """What is hidden of a cell in older segments.

    Attributes:
        cleared: everything.
        ranges: of subkeys, ascending and apart, as `coalesce` makes them.
    """

    cleared: bool = False
    ranges: tuple[Range, ...] = ()

    def hides(self, subkey: bytes) -> bool:
        """Whether the subkey is hidden."""
        return self.cleared or self.end_of_range(subkey) != subkey

    def end_of_range(self, subkey: bytes) -> bytes | None:
        """The first subkey from here on that is in no range; None if none is."""
        before = bisect_right(self.ranges, subkey, key=_start) - 1
        if before < 0:
            return subkey
        end = self.ranges[before][1]
        return end if end is None or end > subkey else subkey

    def over(self, older: Hides | None) -> Hides:
        """What this and older ones hide together."""
        if older is None or self.cleared:
            return self
        if older.cleared:
            return Hides(cleared=True)
        return Hides(ranges=coalesce((*self.ranges, *older.ranges)))


class SegmentReader(Protocol):
    """Reads one segment; `cell` is an encoded cell. Every method raises `SegmentError`.

    Attributes:
        weight: about how many bytes the rows with data take.
        net: about how many bytes of live data there are more than without this segment.
    """

    weight: int
    net: int

    def hides(self, cell: bytes) -> Hides | None:
        """What it hides of a cell; None for nothing."""

    def row(self, cell: bytes, subkey: bytes) -> tuple[bool, bytes | None] | None:
        """Replaces and data of a row; None if there is no such row."""

    def rows(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, bytes | None]]:
        """Subkey, replaces and data of the rows from `start` to before `end`, read as it is used."""

    def weights(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, int | None]]:
        """As `rows`, but with the weight of the row in place of its data, which isn't read."""

    def weight_between(self, cell: bytes, start: bytes, end: bytes | None) -> int:
        """The sum of these weights."""

    def entries(self) -> Iterator[Entry]:
        """All entries in order."""

    def close(self) -> None:
        """Gives the file back."""


def encode_cell(cell: CellId) -> bytes:
    """The cell as bytes, other bytes for other cells; cells of one key lie together."""
    name = cell.name.encode()
    return b"".join((_LENGTHS.pack(len(cell.key), len(name)), cell.key, name, cell.window))


def encode_values(values: Iterable[Any]) -> bytes:
    """The data of a row that adds these values."""
    encoded: bytes = msgpack.packb(tuple(values))
    return encoded


def decode_values(data: Sequence[bytes]) -> tuple[Any, ...]:
    """The values of the rows at one subkey, oldest first."""
    if len(data) == 1:
        return _values(data[0])
    return tuple(value for part in data for value in _values(part))


def _values(data: bytes) -> tuple[Any, ...]:
    values: tuple[Any, ...] = msgpack.unpackb(data, use_list=False)
    return values


def weight_of(subkey: bytes, size: int) -> int:
    """About how many bytes a row takes whose data has so many."""
    return len(subkey) + size + _ROW_OVERHEAD


def coalesce(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same subkeys in ranges that are ascending and apart; empty ones are left out."""
    merged: list[Range] = []
    for start, end in sorted(ranges, key=_start):
        if end is not None and end <= start:
            continue
        if merged:
            last_start, last_end = merged[-1]
            if last_end is None:
                break
            if start <= last_end:
                merged[-1] = (last_start, None if end is None else max(last_end, end))
                continue
        merged.append((start, end))
    return tuple(merged)


def _start(bounds: Range) -> bytes:
    return bounds[0]
