"""Files of rows: written under a name that no other attempt has, mapped and read row by row.

A file is its rows, each at a multiple of 64 bytes, then a directory that has place, kind and checksum of
every row. The directory's own checksum travels with the reference to the file, which is committed. So
whatever is read was checked before, down to the last byte, and nobody makes sense of what is damaged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from beam_spark_executor.data.errors import RowsError
from beam_spark_executor.data.refs import FileRows, RowsRef
from beam_spark_executor.data.rows import Row, RowKind

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

    def close(self) -> int:
        """Finishes the file, and returns the checksum of all of it.

        It survives every process, but a power cut only once it was synced.
        """
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
            raise RowsError(path, f"can't be read: {error}") from error
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
        end = self.whole.size - _END.itemsize
        if end >= 0:
            ((rows, magic),) = np.frombuffer(self.whole, _END, 1, end).tolist()
            start = end - rows * _ROW.itemsize
            if magic == _MAGIC and start >= 0:
                found = xxhash.xxh3_64_intdigest(self.whole.slice(start))
                if found == checksum:
                    return np.frombuffer(self.whole, _ROW, rows, start)
        raise RowsError.damaged(self._path, "its directory of rows is not the one that was written")


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
