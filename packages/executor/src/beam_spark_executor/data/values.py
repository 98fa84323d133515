"""The values of a group that are too many for one ``bytes``: read in pieces, from memory or a file.

Implements ``beam_runner_worker.records.ValuePieces``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from beam_runner_worker.limits import PIECE_BYTES

from beam_spark_executor.data.columns import concatenated, from_bytes
from beam_spark_executor.data.files import RowFile
from beam_spark_executor.data.refs import FileRows


class ValuesInMemory:
    """A run of a column of values; keeps the whole column.

    Args:
        values: binary, with 64-bit offsets.
        first: the number of the first value.
        last: the number after the last value.
    """

    def __init__(self, values: pa.Array, first: int, last: int) -> None:
        offsets = np.frombuffer(values.buffers()[1], dtype=np.int64)
        ends = offsets[values.offset + first : values.offset + last + 1]
        self._data = values.buffers()[2]
        self._cuts = _cuts(ends)

    def __len__(self) -> int:
        return self._cuts[-1] - self._cuts[0]

    @property
    def pieces(self) -> int:
        """How many pieces they are in."""
        return len(self._cuts) - 1

    def piece(self, number: int) -> bytes:
        """Some whole values."""
        start, end = self._cuts[number : number + 2]
        return self._data.slice(start, end - start).to_pybytes() if end > start else b""


class ValuesInFile:
    """All values of some rows of keyed columns in a file; keeps nothing but the mapped file.

    Args:
        folder: that the file is in.
        ref: the rows; each is a piece.
        size: of the values in bytes.
    """

    def __init__(self, folder: Path, ref: FileRows, size: int) -> None:
        self._file = RowFile(folder / ref.path, ref.checksum)
        self._rows = ref.rows
        self._size = size

    def __len__(self) -> int:
        return self._size

    @property
    def pieces(self) -> int:
        """How many pieces they are in."""
        return len(self._rows)

    def piece(self, number: int) -> bytes:
        """Some whole values."""
        _, data = self._file.row(self._rows[number])
        return value_bytes(from_bytes(data))


def value_bytes(batch: pa.RecordBatch) -> bytes:
    """All values of a batch, concatenated."""
    return bytes(concatenated(batch.column("value")))


def _cuts(ends: npt.NDArray[np.int64]) -> list[int]:
    """Where pieces begin and end: at an end of a value, as soon as there are enough bytes."""
    cuts = [int(ends[0])]
    last = int(ends[-1])
    while cuts[-1] < last:
        wanted = int(np.searchsorted(ends, cuts[-1] + PIECE_BYTES))
        cuts.append(int(ends[min(wanted, len(ends) - 1)]))
    return cuts
