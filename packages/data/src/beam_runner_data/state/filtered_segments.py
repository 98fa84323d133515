"""Readers of state segments that skip some cells. A cell contains one state of one key.

An update can drop states, or split a key shard. The files stay unchanged, because the rewrite of
large files takes seconds. Readers skip cells, and compaction removes them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from beam_runner_data.state.records import DeletedSubkeys, Entry, SegmentReader


class FilteredSegment(ABC):
    """Reader of a state segment that skips some of its cells. Implements `SegmentReader`."""

    def __init__(self, reader: SegmentReader) -> None:
        self._reader = reader
        self.weight = reader.weight
        # The size of the skipped cells is unknown without reading the file. Report no live data for
        # the segment, so that the next merge of the shard soon removes the skipped cells and the
        # filter.
        self.net = 0

    def read_deleted_subkeys(self, cell: bytes) -> DeletedSubkeys | None:
        return None if self._is_cell_skipped(cell) else self._reader.read_deleted_subkeys(cell)

    def read_row(self, cell: bytes, subkey: bytes) -> tuple[bool, bytes | None] | None:
        return None if self._is_cell_skipped(cell) else self._reader.read_row(cell, subkey)

    def read_rows(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, bytes | None]]:
        return iter(()) if self._is_cell_skipped(cell) else self._reader.read_rows(cell, start, end)

    def read_row_sizes(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, int | None]]:
        return (
            iter(())
            if self._is_cell_skipped(cell)
            else self._reader.read_row_sizes(cell, start, end)
        )

    def sum_row_sizes(self, cell: bytes, start: bytes, end: bytes | None) -> int:
        return 0 if self._is_cell_skipped(cell) else self._reader.sum_row_sizes(cell, start, end)

    def read_entries(self) -> Iterator[Entry]:
        return (
            entry for entry in self._reader.read_entries() if not self._is_cell_skipped(entry[0])
        )

    def close(self) -> None:
        self._reader.close()

    @abstractmethod
    def _is_cell_skipped(self, cell: bytes) -> bool:
        """Returns whether the reader skips a cell."""
