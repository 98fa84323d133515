"""The content of a state segment: rows of cells, and tombstones that delete data of older segments.

A segment is a sorted sequence of *entries*, which are tuples of five fields:

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
class DeletedSubkeys:
    """Tombstones of a state cell in a segment: they delete all or some subkeys (map or sort keys)
    of the cell from older segments.

    Attributes:
        cleared: whether everything is deleted.
        ranges: ranges of subkeys, ascending and disjoint, as `merge_subkey_ranges` returns them.
    """

    cleared: bool = False
    ranges: tuple[Range, ...] = ()

    def contains_subkey(self, subkey: bytes) -> bool:
        """Returns whether the tombstones delete this subkey (map or sort key)."""
        return self.cleared or self.find_next_remaining_subkey(subkey) != subkey

    def find_next_remaining_subkey(self, subkey: bytes) -> bytes | None:
        """Returns the first subkey at or after the given subkey that isn't deleted; None if all are deleted."""
        before = bisect_right(self.ranges, subkey, key=_get_range_start) - 1
        if before < 0:
            return subkey
        end = self.ranges[before][1]
        return end if end is None or end > subkey else subkey

    def merge_with(self, older: DeletedSubkeys | None) -> DeletedSubkeys:
        """Returns tombstones that delete the subkeys of these tombstones and of older tombstones."""
        if older is None or self.cleared:
            return self
        if older.cleared:
            return DeletedSubkeys(cleared=True)
        return DeletedSubkeys(ranges=merge_subkey_ranges((*self.ranges, *older.ranges)))


class SegmentReader(Protocol):
    """Reader of one state segment. Every method raises `SegmentError` if the file is damaged.

    The parameter `cell` is an encoded cell ID.

    Attributes:
        weight: the approximate total size of the rows with data, in bytes.
        net: the approximate growth of live data in bytes by this segment.
    """

    weight: int
    net: int

    def read_deleted_subkeys(self, cell: bytes) -> DeletedSubkeys | None:
        """Returns the parts of a cell in older segments that this segment deletes; None if the segment
        deletes nothing.
        """

    def read_row(self, cell: bytes, subkey: bytes) -> tuple[bool, bytes | None] | None:
        """Returns whether a row replaces older values (`replaces`), and its data; None if the row doesn't exist."""

    def read_rows(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, bytes | None]]:
        """Yields subkey (map or sort key), `replaces` flag and data of the rows from `start` to
        before `end`, read lazily.
        """

    def read_row_sizes(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, int | None]]:
        """Yields the rows as `read_rows` does, with the size (bytes) of each row in place of its data,
        which isn't read.
        """

    def sum_row_sizes(self, cell: bytes, start: bytes, end: bytes | None) -> int:
        """Returns the total size (bytes) of the rows that `read_row_sizes` yields."""

    def read_entries(self) -> Iterator[Entry]:
        """Yields all entries of the segment in sorted order."""

    def close(self) -> None:
        """Closes the segment's file."""


def encode_cell(cell: CellId) -> bytes:
    """Returns a cell ID as bytes, unique for each cell; the cells of one key sort together."""
    name = cell.name.encode()
    return b"".join((_LENGTHS.pack(len(cell.key), len(name)), cell.key, name, cell.window))


def decode_cell_name(cell: bytes) -> str:
    """Returns the name of the state in an encoded cell ID."""
    key_length, name_length = _LENGTHS.unpack_from(cell)
    start = _LENGTHS.size + key_length
    return cell[start : start + name_length].decode()


def decode_cell_key(cell: bytes) -> bytes:
    """Returns the encoded key in an encoded cell ID."""
    key_length, _ = _LENGTHS.unpack_from(cell)
    return cell[_LENGTHS.size : _LENGTHS.size + key_length]


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


def estimate_row_size(subkey: bytes, size: int) -> int:
    """Returns the approximate size in bytes of a row with data of the given size."""
    return len(subkey) + size + _ROW_OVERHEAD


def merge_subkey_ranges(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Returns ascending and disjoint ranges of the same subkeys, without empty ranges."""
    merged: list[Range] = []
    for start, end in sorted(ranges, key=_get_range_start):
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


def _get_range_start(bounds: Range) -> bytes:
    return bounds[0]
