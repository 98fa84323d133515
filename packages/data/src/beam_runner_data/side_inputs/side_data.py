"""The content of a side input: read from stored rows in order, or from memory by window and key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import attrs
import pyarrow as pa
from beam_runner_engine.scheduler.data import Data
from beam_runner_model.lengths import encode_count
from beam_runner_model.value_pieces import PIECE_BYTES, ValuePieces

from beam_runner_data.grouping.groups import group_row_batches
from beam_runner_data.rows.columns import concatenate_values, decode_batch, get_windows
from beam_runner_data.rows.files import read_referenced_rows
from beam_runner_data.rows.refs import FileRows, RowsRef

_ROW_OVERHEAD = 8
"""Size of the key and value offsets of an element in memory, in bytes; other overhead is small."""


class SideInputContent(Protocol):
    """Reader of the values of a side input. Windows and keys are encoded, and values are in order.

    A side input without keys uses the empty key.
    """

    def read_values(self, window: bytes, key: bytes) -> bytes | ValuePieces:
        """Returns all values of a key in a window."""

    def read_keys(self, window: bytes) -> bytes | ValuePieces:
        """Returns the distinct keys of a window."""

    def read_groups(self, window: bytes) -> bytes | ValuePieces:
        """Yields each key of a window, the number of its values and its values."""


class InMemorySideInput:
    """Content of a side input in memory: a small side input, or the part that a bundle may see.

    Args:
        entries: number and bytes of the values of each window and key.
    """

    def __init__(self, entries: Mapping[bytes, Mapping[bytes, tuple[int, bytes]]]) -> None:
        self._entries = entries

    @classmethod
    def load_data(cls, folder: Path, data: Sequence[Data]) -> InMemorySideInput:
        """Reads the rows of a side input completely into memory, and returns the content by window
        and key.
        """
        batches = [
            decode_batch(row) for one in data for _, row in read_referenced_rows(folder, one.ref)
        ]
        if not batches:
            return cls({})
        groups = group_row_batches(batches)
        keys = groups.keys.to_pylist()
        windows = groups.windows
        if isinstance(windows, bytes):
            windows = [windows] * len(groups)
        entries: dict[bytes, dict[bytes, tuple[int, bytes]]] = {}
        counts = groups.count_values().tolist()
        blobs = groups.join_values(0, len(groups))
        for key, window, count, blob in zip(keys, windows, counts, blobs, strict=True):
            entries.setdefault(window, {})[key] = (count, blob)
        return cls(entries)

    def read_values(self, window: bytes, key: bytes) -> bytes:
        """Returns all values of a key in a window."""
        return self._entries.get(window, {}).get(key, (0, b""))[1]

    def read_keys(self, window: bytes) -> bytes:
        """Returns the distinct keys of a window."""
        return b"".join(self._entries.get(window, {}))

    def read_groups(self, window: bytes) -> bytes:
        """Yields each key of a window, the number of its values and its values."""
        return b"".join(
            b"".join((key, encode_count(count), blob))
            for key, (count, blob) in self._entries.get(window, {}).items()
        )


def read_window_elements(folder: Path, data: Sequence[Data]) -> ValuePieces:
    """Returns the elements of one window of an iterable side input, read from the rows in order.

    Args:
        data: data that contains no other window.
    """
    pieces: list[list[RowsRef]] = []
    filled = PIECE_BYTES
    for one in data:
        for part, size in _split_data(one):
            if filled + size > PIECE_BYTES:
                pieces.append([])
                filled = 0
            pieces[-1].append(part)
            filled += size

    def read_value_piece(number: int) -> bytes:
        # Map the file only during this loop, so that its pages can be released afterwards.
        return b"".join(
            concatenate_values(decode_batch(row).column("value"))
            for ref in pieces[number]
            for _, row in read_referenced_rows(folder, ref)
        )

    size = sum(one.facts.size - _ROW_OVERHEAD * one.facts.count for one in data)
    return ValuePieces(size, len(pieces), read_value_piece)


def read_latest_element(folder: Path, data: Sequence[Data], window: bytes) -> bytes:
    """Returns the last element of a window; empty if the window has no elements."""
    for one in reversed(data):
        for _, row in reversed(list(read_referenced_rows(folder, one.ref))):
            batch = decode_batch(row)
            found = _find_last_row(batch, window)
            if found is not None:
                value: bytes = batch.column("value")[found].as_py()
                return value
    return b""


def _find_last_row(batch: pa.RecordBatch, window: bytes) -> int | None:
    """Returns the number of the last row that contains an element of a window."""
    windows = get_windows(batch)
    if isinstance(windows, bytes):
        return len(batch) - 1 if windows == window else None
    return next((n for n in reversed(range(len(windows))) if windows[n].as_py() == window), None)


def _split_data(data: Data) -> Iterator[tuple[RowsRef, int]]:
    """Divides the rows of data into parts of at most 1 MiB, and yields each part with its size in bytes.

    A row that is larger is a part by itself.
    """
    ref, size = data.ref, data.facts.size
    if not isinstance(ref, FileRows):
        yield ref, size
        return
    count = len(ref.rows)
    together = max(1, PIECE_BYTES * count // max(1, size))
    for first in range(0, count, together):
        rows = ref.rows[first : first + together]
        yield attrs.evolve(ref, rows=rows), size * len(rows) // count
