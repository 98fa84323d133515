"""Readers of the state segments of a key shard (hash partition of keys) that an update split into
several shards. All new shards read the same files, and each reader returns only the cells of one
new shard.
"""

from __future__ import annotations

from collections.abc import Iterator

from beam_runner_engine.keyed.division import (
    DIVISION_MARK,
    NewShardCellPart,
    get_new_shard_cell_part,
    read_key_of_due_time,
)

from beam_runner_data.rows.refs import KeyShare
from beam_runner_data.state.filtered_segments import FilteredSegment
from beam_runner_data.state.records import (
    ROW,
    Entry,
    SegmentReader,
    decode_cell_key,
    decode_cell_name,
    encode_cell,
    encode_values,
)

_MARK = encode_cell(DIVISION_MARK)


class KeyFilteredSegment(FilteredSegment):
    """Reader of a segment that skips the cells of other shards, and the due times (agenda entries) of
    their keys.
    """

    def __init__(self, reader: SegmentReader, share: KeyShare) -> None:
        super().__init__(reader)
        self._share = share

    def read_row(self, cell: bytes, subkey: bytes) -> tuple[bool, bytes | None] | None:
        if cell == _MARK:
            return (True, encode_values(())) if not subkey else None
        return super().read_row(cell, subkey) if self._owns_subkey(cell, subkey) else None

    def read_rows(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, bytes | None]]:
        rows = super().read_rows(cell, start, end)
        return (
            rows
            if not _is_due_time_cell(cell)
            else (one for one in rows if self._owns_entry(one[0]))
        )

    def read_row_sizes(
        self, cell: bytes, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, bool, int | None]]:
        rows = super().read_row_sizes(cell, start, end)
        return (
            rows
            if not _is_due_time_cell(cell)
            else (one for one in rows if self._owns_entry(one[0]))
        )

    def sum_row_sizes(self, cell: bytes, start: bytes, end: bytes | None) -> int:
        if not _is_due_time_cell(cell):
            return super().sum_row_sizes(cell, start, end)
        return sum(weight or 0 for _, _, weight in self.read_row_sizes(cell, start, end))

    def read_entries(self) -> Iterator[Entry]:
        """Yields the entries of the shard. A merge can omit the mark that the shard was split,
        because the first bundle removes the mark before the first merge.
        """
        for entry in super().read_entries():
            cell, kind, subkey, *_ = entry
            if kind != ROW or self._owns_subkey(cell, subkey):
                yield entry

    def _is_cell_skipped(self, cell: bytes) -> bool:
        match get_new_shard_cell_part(decode_cell_name(cell)):
            case NewShardCellPart.KEY:
                return not self._share.contains_key(decode_cell_key(cell))
            case NewShardCellPart.NOTHING:
                return True
            case _:
                return False

    def _owns_subkey(self, cell: bytes, subkey: bytes) -> bool:
        return not _is_due_time_cell(cell) or self._owns_entry(subkey)

    def _owns_entry(self, subkey: bytes) -> bool:
        """Returns whether a due time (an entry of an agenda) belongs to a key of the shard."""
        return self._share.contains_key(read_key_of_due_time(subkey))


def _is_due_time_cell(cell: bytes) -> bool:
    return get_new_shard_cell_part(decode_cell_name(cell)) is NewShardCellPart.AGENDA
