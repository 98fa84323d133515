"""Small segments: one pickle with a checksum, loaded whole.

Most commits are a few kilobytes, for which making a database would cost ten times as much.
"""

from __future__ import annotations

import pickle
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from beam_runner_engine.keyed.cells import Range

from beam_spark_executor.storage.state_records import (
    HIDES,
    ROW,
    Entry,
    Hides,
    SegmentError,
    weight_of,
)

MAGIC = b"beam state small"

_Rows: TypeAlias = dict[bytes, tuple[bool, bytes | None]]
_Cell: TypeAlias = tuple[bool, tuple[Range, ...], _Rows]


class SmallSegment:
    """A `SegmentReader` of what is in memory.

    Attributes:
        weight: see `SegmentReader`.
        net: see `SegmentReader`.
    """

    def __init__(self, cells: dict[bytes, _Cell], weight: int, net: int) -> None:
        self._cells = cells
        self._subkeys: dict[bytes, list[bytes]] = {}
        self.weight = weight
        self.net = net

    def hides(self, cell: bytes) -> Hides | None:
        """What it hides of a cell; None for nothing."""
        found = self._cells.get(cell)
        return Hides(found[0], found[1]) if found and (found[0] or found[1]) else None

    def row(self, cell: bytes, subkey: bytes) -> tuple[bool, bytes | None] | None:
        """Replaces and data of a row; None if there is no such row."""
        found = self._cells.get(cell)
        return found[2].get(subkey) if found else None

    def rows(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, bytes | None]]:
        """Subkey, replaces and data of the rows from `start` to before `end`."""
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

    def weights(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, int | None]]:
        """As `rows`, with the weight of the row in place of its data."""
        for subkey, replaces, data in self.rows(cell, start, end):
            yield subkey, replaces, weight_of(subkey, data)

    def weight_between(self, cell: bytes, start: bytes, end: bytes | None) -> int:
        """The sum of these weights."""
        return sum(weight or 0 for _, _, weight in self.weights(cell, start, end))

    def entries(self) -> Iterator[Entry]:
        """All entries in order."""
        for cell, (cleared, ranges, rows) in self._cells.items():
            if cleared or ranges:
                yield cell, HIDES, b"", cleared, ranges
            for subkey, (replaces, data) in rows.items():
                yield cell, ROW, subkey, replaces, data

    def size(self) -> int:
        """About how many bytes its file has."""
        rows = sum(len(rows) for _, _, rows in self._cells.values())
        return self.weight + 64 * (len(self._cells) + rows)

    def close(self) -> None:
        """There is no file to give back."""

    def dump(self) -> bytes:
        """The file's contents."""
        body = pickle.dumps((self._cells, self.weight, self.net), pickle.HIGHEST_PROTOCOL)
        return b"".join((MAGIC, zlib.crc32(body).to_bytes(4, "big"), body))


def small_segment(entries: Iterable[Entry], net: int | None) -> SmallSegment:
    """A segment of these entries; see `SegmentReader.net`, None if it is all that there is."""
    cells: dict[bytes, _Cell] = {}
    weight = 0
    for cell, kind, subkey, flag, payload in entries:
        if kind == HIDES:
            cells[cell] = (flag, payload, {})
        else:
            if cell not in cells:
                cells[cell] = (False, (), {})
            cells[cell][2][subkey] = (flag, payload)
            weight += weight_of(subkey, payload) or 0
    return SmallSegment(cells, weight, weight if net is None else net)


def load_small(path: Path, contents: bytes) -> SmallSegment:
    """Reads what `SmallSegment.dump` gave, or raises `SegmentError`."""
    start = len(MAGIC) + 4
    body = memoryview(contents)[start:]
    if zlib.crc32(body) != int.from_bytes(contents[len(MAGIC) : start], "big"):
        raise SegmentError(path, "is damaged: its checksum is not that of its contents")
    return SmallSegment(*pickle.loads(body))
