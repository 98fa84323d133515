"""Encoded values that are too large for one ``bytes`` object, read in parts (pieces) from memory or
a file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from beam_runner_model.value_pieces import PIECE_BYTES, ValuePieces

from beam_runner_data.rows.columns import concatenate_values, decode_batch, read_large_offsets
from beam_runner_data.rows.files import RowFile
from beam_runner_data.rows.refs import FileRows


def split_column_values(values: pa.Array) -> ValuePieces:
    """Returns the values of a binary column with 64-bit offsets, as pieces of limited size."""
    cuts = _find_piece_boundaries(read_large_offsets(values))
    data = values.buffers()[2]

    def read_value_piece(number: int) -> bytes:
        start, end = cuts[number : number + 2]
        return data.slice(start, end - start).to_pybytes() if end > start else b""

    return ValuePieces(cuts[-1] - cuts[0], len(cuts) - 1, read_value_piece)


def read_file_values(folder: Path, ref: FileRows, size: int) -> ValuePieces:
    """Returns all values of some keyed rows in a file, read lazily from the mapped file.

    Args:
        ref: the reference to the rows; each row is a piece.
        size: the size of the values in bytes.
    """
    file = RowFile(folder / ref.path, ref.checksum)

    def read_value_piece(number: int) -> bytes:
        return join_batch_values(decode_batch(file.read_row(ref.rows[number])[1]))

    return ValuePieces(size, len(ref.rows), read_value_piece)


def join_parts_to_pieces(
    sizes: npt.NDArray[np.integer], read: Callable[[int, int], bytes]
) -> ValuePieces:
    """Joins consecutive parts to larger pieces of about ``PIECE_BYTES``, without splitting a part.

    Args:
        sizes: the sizes of the parts, in bytes.
        read: function that returns the joined parts of a range of part numbers.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    turn = np.maximum(ends - 1, 0) // PIECE_BYTES
    cuts = np.flatnonzero(turn[1:] != turn[:-1]) + 1
    bounds = [0, *cuts.tolist(), len(ends)] if len(ends) else [0]
    size = int(ends[-1]) if len(ends) else 0
    return ValuePieces(size, len(bounds) - 1, lambda number: read(*bounds[number : number + 2]))


def join_batch_values(batch: pa.RecordBatch) -> bytes:
    """Returns all values of a batch, concatenated."""
    return bytes(concatenate_values(batch.column("value")))


def _find_piece_boundaries(ends: npt.NDArray[np.int64]) -> list[int]:
    """Returns the byte offsets at which the encoded values of a group are split into pieces.

    Each piece ends with the first value at which the piece reaches its minimum size.
    """
    cuts = [int(ends[0])]
    last = int(ends[-1])
    while cuts[-1] < last:
        wanted = int(np.searchsorted(ends, cuts[-1] + PIECE_BYTES))
        cuts.append(int(ends[min(wanted, len(ends) - 1)]))
    return cuts
