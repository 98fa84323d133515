"""Files of rows: written under a unique name for each attempt, memory-mapped, and read row by row.

A file has its rows, each at a multiple of 64 bytes, and then a directory with offset, kind and
checksum of every row. The directory's own checksum is part of the committed reference to the file.
So every byte is checked before it is used, and no code interprets damaged data.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from beam_runner_data.rows.columns import decode_batch, encode_batch, split_by_shard
from beam_runner_data.rows.errors import RowsError
from beam_runner_data.rows.refs import FileRows, KeyShare, RowsRef
from beam_runner_data.rows.row import Row, RowKind

_ROW = np.dtype([("at", "<u8"), ("size", "<u8"), ("checksum", "<u8"), ("kind", "<u8")])
_END = np.dtype([("rows", "<u8"), ("magic", "S8")])
_MAGIC = b"beamrow1"
_ALIGNED = 64
_BUFFER = 1 << 17


class RowFileWriter:
    """Writer of a new row file, which contains blocks of encoded elements and a directory of these
    blocks.

    Readers open a file only if a committed reply names it. So files of failed attempts, and of
    attempts that still write after they were abandoned, do no harm.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(exist_ok=True)
        self._file = path.open("wb", buffering=_BUFFER)
        self._rows: list[tuple[int, int, int, int]] = []
        self.at = 0
        """The offset of the next row in the file."""

    def write(self, row: Row) -> None:
        """Appends a row to the file."""
        data, size = row.data, len(row.data)
        self._rows.append((self.at, size, xxhash.xxh3_64_intdigest(data), int(row.kind)))
        self._file.write(data)
        padding = -size % _ALIGNED
        self._file.write(bytes(padding))
        self.at += size + padding

    def close(self, order: Sequence[int] | None = None) -> int:
        """Finishes the file, and returns its checksum.

        The file survives the end of every process, but survives a power failure only after a sync.

        Args:
            order: the row numbers in their new order, or None. The new order costs a copy of the
                file.
        """
        if order is not None:
            self._reorder_rows(order)
        directory = np.array(self._rows, dtype=_ROW).tobytes()
        directory += np.array([(len(self._rows), _MAGIC)], dtype=_END).tobytes()
        self._file.write(directory)
        self._file.close()
        return xxhash.xxh3_64_intdigest(directory)

    def discard(self) -> None:
        """Removes the unfinished file after a failure."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._path.unlink(missing_ok=True)

    def _reorder_rows(self, order: Sequence[int]) -> None:
        """Writes all rows again in the new order, and reuses the checksums of the rows."""
        self._file.close()
        with pa.memory_map(str(self._path)) as file:
            unordered: pa.Buffer = file.read_buffer()
        self._path.unlink()
        self._file = self._path.open("wb", buffering=_BUFFER)
        before, self._rows, self.at = self._rows, [], 0
        for number in order:
            at, size, checksum, kind = before[number]
            self._rows.append((self.at, size, checksum, kind))
            padded = size + -size % _ALIGNED
            self._file.write(unordered.slice(at, padded))
            self.at += padded


class RowFile:
    """A finished, memory-mapped file of rows; any thread may read rows.

    Args:
        path: the path of the file.
        checksum: the checksum that the writer returned.

    Raises:
        RowsError: The file is missing, or differs from the written data.
    """

    def __init__(self, path: Path, checksum: int) -> None:
        self._path = path
        try:
            with pa.memory_map(str(path)) as file:
                self.whole: pa.Buffer = file.read_buffer()
        except FileNotFoundError as error:
            raise RowsError.create_missing_error(path) from error
        except OSError as error:
            raise RowsError.create_unreadable_error(path, error) from error
        self.directory = self._read_directory(checksum)
        """Columns ``at``, ``size``, ``checksum`` and ``kind``, with one entry for each row."""

    def read_row(self, number: int) -> tuple[RowKind, pa.Buffer]:
        """Returns the kind and data of a row, without copying.

        Raises:
            RowsError: the row differs from the written data.
        """
        at, size, checksum, kind = self.directory[number].item()
        data = self.whole.slice(at, size)
        if xxhash.xxh3_64_intdigest(data) != checksum:
            raise RowsError.create_damage_error(
                self._path, f"the checksum of row {number} doesn't match"
            )
        return RowKind(kind), data

    def _read_directory(self, checksum: int) -> npt.NDArray[np.void]:
        start = find_directory(self.whole)
        if start is not None and xxhash.xxh3_64_intdigest(self.whole.slice(start)) == checksum:
            return read_directory(self.whole, start)
        raise RowsError.create_damage_error(
            self._path, "the checksum of the row directory doesn't match"
        )


def find_directory(whole: pa.Buffer) -> int | None:
    """Returns the offset of the directory, given the end of a file; None if the file isn't a row file."""
    end = whole.size - _END.itemsize
    if end >= 0:
        ((rows, magic),) = np.frombuffer(whole, _END, 1, end).tolist()
        start: int = end - rows * _ROW.itemsize
        if magic == _MAGIC and start >= 0:
            return start
    return None


def read_directory(whole: pa.Buffer, start: int) -> npt.NDArray[np.void]:
    """Reads the file's directory at an offset, without a check of the directory's checksum: ``at``,
    ``size``, ``checksum`` and ``kind`` of each row.
    """
    rows = (whole.size - _END.itemsize - start) // _ROW.itemsize
    return np.frombuffer(whole, _ROW, rows, start)


def read_referenced_rows(folder: Path, ref: RowsRef) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
    """Yields the kind and data of every row that a reference to a file or to inline rows names, in
    order; files are mapped, not copied.

    The caller must apply the element limits ``first`` and ``last`` of the reference.

    Raises:
        RowsError: The file is missing, or differs from the written data.
    """
    rows: Iterable[tuple[RowKind, bytes | pa.Buffer]]
    if isinstance(ref, FileRows):
        file = RowFile(folder / ref.path, ref.checksum)
        rows = map(file.read_row, ref.rows)
    else:
        rows = ref.rows
    yield from rows if ref.share is None else _select_keys(rows, ref.share)


def _select_keys(
    rows: Iterable[tuple[RowKind, bytes | pa.Buffer]], share: KeyShare
) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
    """Yields keyed rows without the elements whose keys belong to other shards."""
    for kind, data in rows:
        for shard, part in split_by_shard(decode_batch(data), share.shards):
            if shard == share.shard:
                yield kind, encode_batch(part)
