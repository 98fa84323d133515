"""Large state segments: a sorted table in blocks, written once and read by cell and subkey.

Entries are in order, so a merge reads and writes sequentially. A block has two parts: the positions
and sizes of its entries, and their data. So the size of hidden data can be estimated without
reading data. An index at the end has the position, the first key and the checksums of each block.
The reader verifies the checksum of each part whenever it reads the part. The index's own checksum
is in the reference to the segment.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import attrs
import msgpack
import xxhash
from beam_runner_engine.keyed.cells import Range

from beam_runner_data.rows.errors import SegmentError
from beam_runner_data.state.records import HIDES, ROW, DeletedSubkeys, Entry, estimate_row_size

MAGIC = b"beam state table"

_BLOCK_BYTES = 4096
_KEPT_BLOCKS = 128
_END = struct.Struct(">QQ")
"""The offset and the length of the index."""

_Key: TypeAlias = tuple[bytes, int, bytes]
"""Sort key of an entry: cell, kind and subkey."""


class _BlockDescription(NamedTuple):
    """The position and the first key of a block."""

    first: _Key
    at: int
    places: int
    data: int
    places_checksum: int
    data_checksum: int
    weight: int


@attrs.frozen
class _BlockEntries:
    """The entries of a block of the table, without the data of the entries."""

    keys: Sequence[_Key]
    flags: Sequence[bool]
    sizes: Sequence[int | None]
    """Size of each entry's data; None for a row without data."""
    starts: Sequence[int]
    """Offset of each entry's data in the block's data."""

    def estimate_row_size(self, number: int) -> int | None:
        """Returns the size (bytes) of a row, from the sizes of its key and data."""
        size = self.sizes[number]
        return None if size is None else estimate_row_size(self.keys[number][2], size)


class TableSegment:
    """Reader of a large state segment (a table in a file). Different threads may use the reader,
    but only one at a time. Implements `SegmentReader`.

    Args:
        checksum: the result of `write_table`.
    """

    def __init__(self, path: Path, checksum: int) -> None:
        self._path = path
        self._file = path.open("rb", buffering=0)
        try:
            size = os.fstat(self._file.fileno()).st_size
            end = self._read_bytes(size - _END.size, _END.size)
            index = self._read_bytes(*_END.unpack(end))
            if xxhash.xxh3_64_intdigest(index + end) != checksum:
                raise SegmentError.create_damage_error(
                    path, "the checksum of the index doesn't match"
                )
        except BaseException:
            self._file.close()
            raise
        blocks, self.weight, self.net, self._hides_something = msgpack.unpackb(
            index, use_list=False
        )
        self._blocks = [_BlockDescription(*block) for block in blocks]
        self._firsts = [block.first for block in self._blocks]
        self._places: OrderedDict[int, _BlockEntries] = OrderedDict()
        self._data: OrderedDict[int, bytes] = OrderedDict()

    def read_deleted_subkeys(self, cell: bytes) -> DeletedSubkeys | None:
        """Returns the parts of a cell in older segments that this segment deletes; None if the segment
        deletes nothing.
        """
        found = self._find_entry((cell, HIDES, b"")) if self._hides_something else None
        if found is None:
            return None
        block, number = found
        ranges = _decode_ranges(self._read_payload(block, number) or b"")
        return DeletedSubkeys(self._read_block_entries(block).flags[number], ranges)

    def read_row(self, cell: bytes, subkey: bytes) -> tuple[bool, bytes | None] | None:
        """Returns whether a row replaces older values (`replaces`), and its data; None if the row doesn't exist."""
        found = self._find_entry((cell, ROW, subkey))
        if found is None:
            return None
        return self._read_block_entries(found[0]).flags[found[1]], self._read_payload(*found)

    def read_rows(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, bytes | None]]:
        """Yields subkey, `replaces` flag and data of the rows from `start` to before `end`."""
        for block, number in self._find_rows_between(cell, start, end):
            places = self._read_block_entries(block)
            yield places.keys[number][2], places.flags[number], self._read_payload(block, number)

    def read_row_sizes(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, int | None]]:
        """Yields the rows as `read_rows` does, with the size (bytes) of each row in place of its data."""
        for block, number in self._find_rows_between(cell, start, end):
            places = self._read_block_entries(block)
            yield places.keys[number][2], places.flags[number], places.estimate_row_size(number)

    def sum_row_sizes(self, cell: bytes, start: bytes, end: bytes | None) -> int:
        """Returns the total size (bytes) of the rows in a range; reads only the first and the last block."""
        low, high = (cell, ROW, start), _compute_upper_bound(cell, end)
        first = max(0, bisect_right(self._firsts, low) - 1)
        last = bisect_left(self._firsts, high)
        weight = 0
        for block in range(first, last):
            if first < block < last - 1:
                weight += self._blocks[block].weight
                continue
            places = self._read_block_entries(block)
            for number in range(bisect_left(places.keys, low), bisect_left(places.keys, high)):
                weight += places.estimate_row_size(number) or 0
        return weight

    def read_entries(self) -> Iterator[Entry]:
        """Yields all entries of the segment in sorted order."""
        for block in range(len(self._blocks)):
            places = self._read_block_entries(block)
            for number, (cell, kind, subkey) in enumerate(places.keys):
                payload: Any = self._read_payload(block, number)
                if kind == HIDES:
                    payload = _decode_ranges(payload)
                yield cell, kind, subkey, places.flags[number], payload

    def close(self) -> None:
        """Closes the file; iterators in use end with an error."""
        self._file.close()

    def _find_entry(self, key: _Key) -> tuple[int, int] | None:
        """Returns the block of an entry, and the entry's index in the block."""
        block = bisect_right(self._firsts, key) - 1
        if block < 0:
            return None
        keys = self._read_block_entries(block).keys
        number = bisect_left(keys, key)
        return (block, number) if number < len(keys) and keys[number] == key else None

    def _find_rows_between(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[int, int]]:
        low, high = (cell, ROW, start), _compute_upper_bound(cell, end)
        for block in range(max(0, bisect_right(self._firsts, low) - 1), len(self._blocks)):
            if self._firsts[block] >= high:
                return
            keys = self._read_block_entries(block).keys
            for number in range(bisect_left(keys, low), bisect_left(keys, high)):
                yield block, number

    def _read_block_entries(self, number: int) -> _BlockEntries:
        found = self._places.get(number)
        if found is None:
            block = self._blocks[number]
            encoded = self._read_verified(block.at, block.places, block.places_checksum)
            keys, flags, sizes = msgpack.unpackb(encoded, use_list=False)
            starts = [0, *accumulate(size or 0 for size in sizes)]
            found = _BlockEntries(keys, flags, sizes, starts)
            _cache_block(self._places, number, found)
        return found

    def _read_payload(self, number: int, entry: int) -> bytes | None:
        places = self._read_block_entries(number)
        if places.sizes[entry] is None:
            return None
        data = self._data.get(number)
        if data is None:
            block = self._blocks[number]
            data = self._read_verified(block.at + block.places, block.data, block.data_checksum)
            _cache_block(self._data, number, data)
        return data[places.starts[entry] : places.starts[entry + 1]]

    def _read_verified(self, at: int, size: int, checksum: int) -> bytes:
        data = self._read_bytes(at, size)
        if xxhash.xxh3_64_intdigest(data) != checksum:
            raise SegmentError.create_damage_error(
                self._path, f"the checksum of the block at byte {at} doesn't match"
            )
        return data

    def _read_bytes(self, at: int, size: int) -> bytes:
        try:
            data = os.pread(self._file.fileno(), size, at)
        except OSError as error:
            raise SegmentError.create_unreadable_error(self._path, error) from error
        except (OverflowError, ValueError) as error:
            raise SegmentError.create_damage_error(
                self._path, f"an offset in the segment is out of range: {error}"
            ) from error
        if len(data) != size:
            raise SegmentError.create_damage_error(
                self._path, f"the file ends before byte {at + size}"
            )
        return data


class _TableWriter:
    """Writer of a table to a file, block by block."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._at = file.tell()
        self.blocks: list[tuple[Any, ...]] = []
        self.weight = 0
        self.hides_something = False
        self._start_block()

    def _start_block(self) -> None:
        self._keys: list[_Key] = []
        self._flags: list[bool] = []
        self._sizes: list[int | None] = []
        self._data: list[bytes] = []
        self._size = self._weight = 0

    def add_entry(self, entry: Entry) -> None:
        """Adds the next entry in sorted order."""
        cell, kind, subkey, flag, payload = entry
        if kind == HIDES:
            self.hides_something = True
            payload = msgpack.packb(payload)
        elif payload is not None:
            self._weight += estimate_row_size(subkey, len(payload))
        self._keys.append((cell, kind, subkey))
        self._flags.append(flag)
        self._sizes.append(None if payload is None else len(payload))
        if payload is not None:
            self._data.append(payload)
        self._size += len(cell) + len(subkey) + len(payload or b"")
        if self._size >= _BLOCK_BYTES:
            self.flush_block()

    def flush_block(self) -> None:
        """Writes the current block of entries to the file, and adds the block to the index."""
        if not self._keys:
            return
        places = msgpack.packb((self._keys, self._flags, self._sizes))
        data = b"".join(self._data)
        sums = xxhash.xxh3_64_intdigest(places), xxhash.xxh3_64_intdigest(data)
        self._file.write(places)
        self._file.write(data)
        self.blocks.append((self._keys[0], self._at, len(places), len(data), *sums, self._weight))
        self._at += len(places) + len(data)
        self.weight += self._weight
        self._start_block()


def write_table(file: BinaryIO, entries: Iterable[Entry], net: int | None) -> int:
    """Writes sorted entries into an empty file; returns its checksum.

    `net` is `SegmentReader.net`, None if no other segment exists.
    """
    file.write(MAGIC)
    writer = _TableWriter(file)
    for entry in entries:
        writer.add_entry(entry)
    writer.flush_block()
    weight = writer.weight
    totals = (weight, weight if net is None else net, writer.hides_something)
    index = msgpack.packb((writer.blocks, *totals))
    index += _END.pack(file.tell(), len(index))
    file.write(index)
    return xxhash.xxh3_64_intdigest(index)


def _compute_upper_bound(cell: bytes, end: bytes | None) -> _Key:
    """Returns an upper bound for the rows of the cell before `end`."""
    return (cell, ROW + 1, b"") if end is None else (cell, ROW, end)


def _decode_ranges(encoded: bytes) -> tuple[Range, ...]:
    return tuple(tuple(bounds) for bounds in msgpack.unpackb(encoded))


def _cache_block(kept: OrderedDict[int, Any], number: int, value: Any) -> None:
    kept[number] = value
    if len(kept) > _KEPT_BLOCKS:
        kept.popitem(last=False)
