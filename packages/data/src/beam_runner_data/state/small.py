"""Small state segments, which are loaded completely: all entries in one block with a checksum.

Most commits are a few kilobytes, for which creating a database would cost ten times as much.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgpack
import xxhash
from beam_runner_engine.keyed.cells import Range

from beam_runner_data.rows.errors import SegmentError
from beam_runner_data.state.records import (
    HIDES,
    ROW,
    DeletedSubkeys,
    Entry,
    estimate_row_size,
)

MAGIC = b"beam state small"

_Rows: TypeAlias = dict[bytes, tuple[bool, bytes | None]]
_Cell: TypeAlias = tuple[bool, tuple[Range, ...], _Rows]


class SmallSegment:
    """Reader of a small state segment, whose entries are all in memory. Implements `SegmentReader`."""

    def __init__(self, cells: dict[bytes, _Cell], weight: int, net: int) -> None:
        self._cells = cells
        self._subkeys: dict[bytes, list[bytes]] = {}
        self.weight = weight
        self.net = net

    def read_deleted_subkeys(self, cell: bytes) -> DeletedSubkeys | None:
        """Returns the parts of a cell in older segments that this segment deletes; None if the segment
        deletes nothing.
        """
        found = self._cells.get(cell)
        return DeletedSubkeys(found[0], found[1]) if found and (found[0] or found[1]) else None

    def read_row(self, cell: bytes, subkey: bytes) -> tuple[bool, bytes | None] | None:
        """Returns whether a row replaces older values (`replaces`), and its data; None if the row doesn't exist."""
        found = self._cells.get(cell)
        return found[2].get(subkey) if found else None

    def read_rows(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, bytes | None]]:
        """Yields subkey, `replaces` flag and data of the rows from `start` to before `end`."""
        found = self._cells.get(cell)
        if found is None:
            return
        rows = found[2]
        subkeys = self._subkeys.get(cell)
        if subkeys is None:
            subkeys = self._subkeys[cell] = list(rows)
        for position in range(bisect_left(subkeys, start), len(subkeys)):
            subkey = subkeys[position]
            if end is not None and subkey >= end:
                return
            replaces, data = rows[subkey]
            yield subkey, replaces, data

    def read_row_sizes(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, int | None]]:
        """Yields the rows as `read_rows` does, with the size (bytes) of each row in place of its data."""
        for subkey, replaces, data in self.read_rows(cell, start, end):
            yield subkey, replaces, None if data is None else estimate_row_size(subkey, len(data))

    def sum_row_sizes(self, cell: bytes, start: bytes, end: bytes | None) -> int:
        """Returns the total size (bytes) of the rows that `read_row_sizes` yields."""
        return sum(weight or 0 for _, _, weight in self.read_row_sizes(cell, start, end))

    def read_entries(self) -> Iterator[Entry]:
        """Yields all entries of the segment in sorted order."""
        for cell, (cleared, ranges, rows) in self._cells.items():
            if cleared or ranges:
                yield cell, HIDES, b"", cleared, ranges
            for subkey, (replaces, data) in rows.items():
                yield cell, ROW, subkey, replaces, data

    def estimate_size(self) -> int:
        """Returns the approximate size of the segment's file in bytes."""
        rows = sum(len(rows) for _, _, rows in self._cells.values())
        return self.weight + 64 * (len(self._cells) + rows)

    def close(self) -> None:
        """Does nothing, because no file is open."""

    def encode_segment(self) -> bytes:
        """Returns the encoded segment, which is the content of the segment's file."""
        cells = [
            (cell, cleared, ranges, [(subkey, *row) for subkey, row in rows.items()])
            for cell, (cleared, ranges, rows) in self._cells.items()
        ]
        return MAGIC + msgpack.packb((cells, self.weight, self.net))


def build_small_segment(entries: Iterable[Entry], net: int | None) -> SmallSegment:
    """Returns a segment of these entries; `net` is the approximate growth of live data in bytes,
    or None if no other segment exists.
    """
    cells: dict[bytes, _Cell] = {}
    weight = 0
    for cell, kind, subkey, flag, payload in entries:
        if kind == HIDES:
            cells[cell] = (flag, payload, {})
        else:
            if cell not in cells:
                cells[cell] = (False, (), {})
            cells[cell][2][subkey] = (flag, payload)
            weight += 0 if payload is None else estimate_row_size(subkey, len(payload))
    return SmallSegment(cells, weight, weight if net is None else net)


def load_small_segment(path: Path, contents: bytes, checksum: int) -> SmallSegment:
    """Decodes the result of `SmallSegment.encode_segment`; raises `SegmentError` if the checksum differs."""
    if xxhash.xxh3_64_intdigest(contents) != checksum:
        raise SegmentError.create_damage_error(path, "the checksum of the segment doesn't match")
    found, weight, net = msgpack.unpackb(memoryview(contents)[len(MAGIC) :], use_list=False)
    cells = {
        cell: (cleared, ranges, {subkey: (replaces, data) for subkey, replaces, data in rows})
        for cell, cleared, ranges, rows in found
    }
    return SmallSegment(cells, weight, net)
