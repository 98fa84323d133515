"""Files of a side-input index: arrays and values, of which only the requested parts are read and
verified.

Each file is a file of rows. A row of an array is a block of elements. A part is verified once while
the file is open.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import xxhash

from beam_runner_data.rows.errors import SideIndexError
from beam_runner_data.rows.files import RowFile, RowFileWriter
from beam_runner_data.rows.row import Row, RowKind

_BLOCK = 4096
"""Number of elements of a block, chosen so that the size of a block is a multiple of the alignment of rows."""
_OPEN_FILES = 32
_DIGITS = 16

Array = npt.NDArray[Any]


@attrs.frozen
class IndexFile:
    """Reference to a file of an index: its number of elements, and its checksum."""

    count: int
    checksum: int


class ArrayWriter:
    """Writer of an array to a file, in several calls."""

    def __init__(self, path: Path) -> None:
        self._file = RowFileWriter(path)
        self._waiting: list[Array] = []
        self._waits = 0
        self._count = 0

    def write(self, piece: Array) -> None:
        """Appends elements to the array."""
        self._waiting.append(piece)
        self._waits += len(piece)
        if self._waits >= _BLOCK:
            together = np.concatenate(self._waiting)
            whole = len(together) - len(together) % _BLOCK
            for start in range(0, whole, _BLOCK):
                self._write_block(together[start : start + _BLOCK])
            self._waiting = [together[whole:]]
            self._waits = len(together) - whole

    def close(self) -> IndexFile:
        """Finishes the file, and returns a reference to the file."""
        if self._waits:
            self._write_block(np.concatenate(self._waiting))
        return IndexFile(self._count, self._file.close())

    def _write_block(self, block: Array) -> None:
        self._file.write(Row(0, RowKind.ELEMENTS, block.tobytes(), len(block)))
        self._count += len(block)


class VerifiedArray:
    """A memory-mapped array in a file, whose parts are verified when they are read; thread-safe."""

    def __init__(self, path: Path, dtype: np.dtype[Any], part: IndexFile) -> None:
        self._file = RowFile(path, part.checksum)
        self._array: Array = np.frombuffer(self._file.whole, dtype, part.count)
        self._is_checked = np.zeros(-(-part.count // _BLOCK), dtype=np.bool_)

    def __len__(self) -> int:
        return len(self._array)

    def read_part(self, first: int, last: int) -> Array:
        """Returns a range of elements; raises RowsError if the elements differ from the written
        data.
        """
        for block in range(first // _BLOCK, -(-last // _BLOCK)):
            if not self._is_checked[block]:
                self._file.read_row(block)
                self._is_checked[block] = True
        return self._array[first:last]

    def read_all(self) -> Array:
        """Returns all elements of the array, after verifying them."""
        return self.read_part(0, len(self))

    def find_insertion_index(self, value: np.unsignedinteger[Any]) -> int:
        """Returns the index of the first element that is not less than a value, in an ascending array."""
        low, high = 0, len(self._is_checked)
        while low < high:
            middle = (low + high) // 2
            if self.read_part(middle * _BLOCK, middle * _BLOCK + 1)[0] < value:
                low = middle + 1
            else:
                high = middle
        first = max(0, low - 1) * _BLOCK
        block = self.read_part(first, min(first + _BLOCK, len(self)))
        # Use exactly the array's type, because NumPy would convert the whole array otherwise.
        return first + int(block.searchsorted(value))


class SourceFiles:
    """Reader of values from files of rows, which holds the last few files open. An open file can be
    read after its removal.

    Args:
        files: paths and checksums.
    """

    def __init__(self, files: Sequence[tuple[Path, int]]) -> None:
        self._files = files
        self._open: OrderedDict[int, _SourceFile] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, source: int, at: int, size: int) -> bytes:
        """Returns `size` bytes of a source file, from the offset `at`.

        Raises:
            RowsError: the file is missing, or differs from the written data.
        """
        with self._lock:
            file = self._open.pop(source, None) or _SourceFile(*self._files[source])
            self._open[source] = file
            if len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)
            return file.read(at, size)


class _SourceFile:
    def __init__(self, path: Path, checksum: int) -> None:
        self._rows = RowFile(path, checksum)
        self._starts = self._rows.directory["at"].copy()
        self._ends = self._starts + self._rows.directory["size"]
        self._is_checked = np.zeros(len(self._starts), dtype=np.bool_)

    def read(self, at: int, size: int) -> bytes:
        """Returns a byte range that lies in one row, or in consecutive rows."""
        row = int(self._starts.searchsorted(np.uint64(at), "right")) - 1
        while row < len(self._starts) and self._starts[row] < at + size:
            if not self._is_checked[row]:
                self._rows.read_row(row)
                self._is_checked[row] = True
            row += 1
        return self._rows.whole.slice(at, size).to_pybytes()


def write_index_description(path: Path, about: dict[str, Any]) -> None:
    """Writes the description of an index, `about.json`, with a checksum."""
    text = json.dumps(about).encode()
    path.write_bytes(xxhash.xxh3_64_hexdigest(text).encode() + text)


def read_index_description(path: Path) -> dict[str, Any]:
    """Reads the description of an index that `write_index_description` wrote.

    Raises:
        SideIndexError: The file is missing, or differs from the written data.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise SideIndexError.create_missing_error(path) from error
    except OSError as error:
        raise SideIndexError.create_unreadable_error(path, error) from error
    checksum, text = content[:_DIGITS], content[_DIGITS:]
    if checksum != xxhash.xxh3_64_hexdigest(text).encode():
        raise SideIndexError.create_damage_error(
            path, "the checksum of the index description doesn't match"
        )
    about: dict[str, Any] = json.loads(text)
    return about
