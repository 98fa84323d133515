"""Files of rows: written under a name that no other attempt has, mapped and read row by row.

A file is its rows, each at a multiple of 64 bytes, then a directory that has place, kind and checksum of
every row. The directory's own checksum travels with the reference to the file, which is committed. So
whatever is read was checked before, down to the last byte, and nobody makes sense of what is damaged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from beam_runner_data.rows.errors import RowsError
from beam_runner_data.rows.refs import FileRows, RowsRef
from beam_runner_data.rows.row import Row, RowKind

_ROW = np.dtype([("at", "<u8"), ("size", "<u8"), ("checksum", "<u8"), ("kind", "<u8")])
_END = np.dtype([("rows", "<u8"), ("magic", "S8")])
_MAGIC = b"beamrow1"
_ALIGNED = 64
_BUFFER = 1 << 17


class RowFileWriter:
    """Writes rows to a new file.

    Only files that a committed reply names are ever read, so those of attempts that failed, or
    that go on writing after they were given up, do no harm.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(exist_ok=True)
        self._file = path.open("wb", buffering=_BUFFER)
        self._rows: list[tuple[int, int, int, int]] = []
        self.at = 0
        """Where the next row begins in the file."""

    def write(self, row: Row) -> None:
        """Appends a row."""
        data, size = row.data, len(row.data)
        self._rows.append((self.at, size, xxhash.xxh3_64_intdigest(data), int(row.kind)))
        self._file.write(data)
        padding = -size % _ALIGNED
        self._file.write(bytes(padding))
        self.at += size + padding

    def close(self, order: Sequence[int] | None = None) -> int:
        """Finishes the file, and returns the checksum of all of it.

        It survives every process, but a power cut only once it was synced.

        Args:
            order: the rows, by the numbers in which they were written, in the order in which they are to lie and be
                numbered; costs a copy of the file.
        """
        if order is not None:
            self._put_in(order)
        directory = np.array(self._rows, dtype=_ROW).tobytes()
        directory += np.array([(len(self._rows), _MAGIC)], dtype=_END).tobytes()
        self._file.write(directory)
        self._file.close()
        return xxhash.xxh3_64_intdigest(directory)

    def discard(self) -> None:
        """Gives the file up, after a failure, which may be that it can't be finished."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._path.unlink(missing_ok=True)

    def _put_in(self, order: Sequence[int]) -> None:
        """Writes all rows again, with the checksums that they have."""
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
    """A finished file of rows, mapped; rows may be read from any thread.

    Args:
        path: the file's.
        checksum: what the writer returned.

    Raises:
        RowsError: the file is missing, or not what was written.
    """

    def __init__(self, path: Path, checksum: int) -> None:
        self._path = path
        try:
            with pa.memory_map(str(path)) as file:
                self.whole: pa.Buffer = file.read_buffer()
        except FileNotFoundError as error:
            raise RowsError.missing(path) from error
        except OSError as error:
            raise RowsError.unreadable(path, error) from error
        self.directory = self._directory(checksum)
        """``at``, ``size``, ``checksum`` and ``kind`` of each row."""

    def row(self, number: int) -> tuple[RowKind, pa.Buffer]:
        """The kind and data of a row, which is not copied.

        Raises:
            RowsError: it is not what was written.
        """
        at, size, checksum, kind = self.directory[number].item()
        data = self.whole.slice(at, size)
        if xxhash.xxh3_64_intdigest(data) != checksum:
            raise RowsError.damaged(self._path, f"row {number} has another checksum")
        return RowKind(kind), data

    def _directory(self, checksum: int) -> npt.NDArray[np.void]:
        start = directory_start(self.whole)
        if start is not None and xxhash.xxh3_64_intdigest(self.whole.slice(start)) == checksum:
            return directory_from(self.whole, start)
        raise RowsError.damaged(self._path, "its directory of rows is not the one that was written")


def directory_start(whole: pa.Buffer) -> int | None:
    """Where in a file, of which only the end need be there, its directory begins; None if it is no file of rows."""
    end = whole.size - _END.itemsize
    if end >= 0:
        ((rows, magic),) = np.frombuffer(whole, _END, 1, end).tolist()
        start: int = end - rows * _ROW.itemsize
        if magic == _MAGIC and start >= 0:
            return start
    return None


def directory_from(whole: pa.Buffer, start: int) -> npt.NDArray[np.void]:
    """The directory that begins there: ``at``, ``size``, ``checksum`` and ``kind`` of each row; nothing is checked."""
    rows = (whole.size - _END.itemsize - start) // _ROW.itemsize
    return np.frombuffer(whole, _ROW, rows, start)


def read_ref(folder: Path, ref: RowsRef) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
    """The kind and data of every row of a reference, in order; files are mapped, not copied.

    ``first`` and ``last`` of the reference are the caller's to apply.

    Raises:
        RowsError: the file is missing, or not what was written.
    """
    if not isinstance(ref, FileRows):
        yield from ref.rows
        return
    file = RowFile(folder / ref.path, ref.checksum)
    for number in ref.rows:
        yield file.row(number)
