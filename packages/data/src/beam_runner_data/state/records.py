"""The content of a state segment: rows of cells, and marks that hide parts of older segments.

A segment is a sorted sequence of *entries*, tuples of five:

    (cell, HIDES, b"",    cleared,  ranges)   at most one per cell, before its rows
    (cell, ROW,   subkey, replaces, data)     ascending by subkey

In older segments, an entry HIDES hides everything of a cell (`cleared`) or ranges of subkeys, and a
ROW that replaces hides its subkey. The values that remain at a subkey come before `data`, the
encoded added values. None adds nothing and leaves the subkey absent. Values are bytes, strings,
64-bit integers, None, or tuples of these.
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
"""Entries compare in their sorting order; cell, kind and subkey are unique together."""

_LENGTHS = struct.Struct(">IH")
_ROW_OVERHEAD = 16


@attrs.frozen
class HiddenSubkeys:
    """Mark for the parts of a cell that a segment hides in older segments.

    Attributes:
        cleared: whether everything is hidden.
        ranges: ranges of subkeys, ascending and disjoint, as `coalesce_ranges` returns them.
    """

    cleared: bool = False
    ranges: tuple[Range, ...] = ()

    def contains_subkey(self, subkey: bytes) -> bool:
        """Returns whether the mark hides a subkey."""
        return self.cleared or self.skip_range(subkey) != subkey

    def skip_range(self, subkey: bytes) -> bytes | None:
        """Returns the first subkey at or after the given subkey that isn't hidden; None if all are hidden."""
        before = bisect_right(self.ranges, subkey, key=_get_start) - 1
        if before < 0:
            return subkey
        end = self.ranges[before][1]
        return end if end is None or end > subkey else subkey

    def merge_with(self, older: HiddenSubkeys | None) -> HiddenSubkeys:
        """Returns a mark that hides the subkeys of this mark and of an older mark."""
        if older is None or self.cleared:
            return self
        if older.cleared:
            return HiddenSubkeys(cleared=True)
        return HiddenSubkeys(ranges=coalesce_ranges((*self.ranges, *older.ranges)))


class SegmentReader(Protocol):
    """Reader of one state segment. Every method raises `SegmentError` if the file is damaged.

    The parameter `cell` is an encoded cell ID.

    Attributes:
        weight: the approximate size in bytes of the rows with data.
        net: the approximate growth of live data in bytes by this segment.
    """

    weight: int
    net: int

    def read_hidden_subkeys(self, cell: bytes) -> HiddenSubkeys | None:
        """Returns the parts of a cell that this segment hides in older segments; None for nothing."""

    def read_row(self, cell: bytes, subkey: bytes) -> tuple[bool, bytes | None] | None:
        """Returns whether a row replaces older values (`replaces`), and its data; None if the row doesn't exist."""

    def read_rows(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, bytes | None]]:
        """Yields subkey, `replaces` flag and data of the rows from `start` to before `end`, read lazily."""

    def read_weights(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, int | None]]:
        """Yields the rows as `read_rows` does, with the weight (bytes) of each row in place of its
        data, which isn't read.
        """

    def sum_weights(self, cell: bytes, start: bytes, end: bytes | None) -> int:
        """Returns the total weight (bytes) of the rows that `read_weights` yields."""

    def read_entries(self) -> Iterator[Entry]:
        """Yields all entries of the segment in sorted order."""

    def close(self) -> None:
        """Closes the segment's file."""


def encode_cell(cell: CellId) -> bytes:
    """Returns a cell ID as bytes, unique for each cell; the cells of one key sort together."""
    name = cell.name.encode()
    return b"".join((_LENGTHS.pack(len(cell.key), len(name)), cell.key, name, cell.window))


def encode_values(values: Iterable[Any]) -> bytes:
    """Returns the encoded data of a row that adds these values."""
    encoded: bytes = msgpack.packb(tuple(values))
    return encoded


def decode_values(data: Sequence[bytes]) -> tuple[Any, ...]:
    """Returns the values of the rows at one subkey, oldest first."""
    if len(data) == 1:
        return _decode_part(data[0])
    return tuple(value for part in data for value in _decode_part(part))


def _decode_part(data: bytes) -> tuple[Any, ...]:
    values: tuple[Any, ...] = msgpack.unpackb(data, use_list=False)
    return values


def estimate_weight(subkey: bytes, size: int) -> int:
    """Returns the approximate size in bytes of a row with data of the given size."""
    return len(subkey) + size + _ROW_OVERHEAD


def coalesce_ranges(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Returns ascending and disjoint ranges of the same subkeys, without empty ranges."""
    merged: list[Range] = []
    for start, end in sorted(ranges, key=_get_start):
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


def _get_start(bounds: Range) -> bytes:
    return bounds[0]
