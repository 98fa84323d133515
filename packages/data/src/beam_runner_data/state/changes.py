"""Conversion of a bundle's state changes to a segment (an immutable file of changes), with an estimate
of the older data that the changes replace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs
from beam_runner_engine.keyed.cells import CellDelta, CellId, Range

from beam_runner_data.state.overlay import fetch_row_sizes, scan_live_rows
from beam_runner_data.state.records import (
    HIDES,
    ROW,
    Entry,
    SegmentReader,
    encode_cell,
    encode_values,
    merge_subkey_ranges,
)
from beam_runner_data.state.small import SmallSegment, build_small_segment

_ROWS = 1024
"""The maximum number of rows that are read one by one for an estimate."""
_PLACES = 64
"""Maximum number of subkey ranges, and of removed subkeys, that are read for an estimate."""


def build_segment_of_changes(
    readers: Sequence[SegmentReader],
    deltas: Mapping[CellId, CellDelta],
    taken_from_front: Collection[CellId],
) -> SmallSegment:
    """Returns the changes as a state segment that is newer than the given segments, without writing a
    file.

    State cells in `taken_from_front` are queues: user code repeatedly removes their first subkeys
    (map keys or sort keys). The removed beginning becomes one range, so that a scan need not skip
    each subkey.
    """
    sorted_cells = sorted((encode_cell(cell), cell) for cell in deltas)
    changes = [
        (
            encoded,
            _join_removed_leading_subkeys(readers, encoded, deltas[cell])
            if cell in taken_from_front and deltas[cell].removed
            else deltas[cell],
        )
        for encoded, cell in sorted_cells
    ]
    draft = build_small_segment(
        (entry for change in changes for entry in _build_entries(*change)), None
    )
    draft.net -= _estimate_deleted_bytes(readers, changes)
    return draft


def _build_entries(cell: bytes, delta: CellDelta) -> Iterator[Entry]:
    ranges = () if delta.cleared else merge_subkey_ranges(delta.removed_ranges)
    if delta.cleared or ranges:
        yield cell, HIDES, b"", delta.cleared, ranges
    removed = frozenset[bytes]() if delta.cleared else delta.removed
    for subkey in sorted(removed.union(delta.added)):
        values = delta.added.get(subkey)
        data = None if values is None else encode_values(values)
        yield cell, ROW, subkey, delta.deletes_subkey(subkey), data


def _join_removed_leading_subkeys(
    readers: Sequence[SegmentReader], cell: bytes, delta: CellDelta
) -> CellDelta:
    """Returns an equal change that removes the first subkeys (map or sort keys) of the cell as one
    range.
    """
    if delta.cleared:
        return delta
    stays = None
    for number, (subkey, _) in enumerate(scan_live_rows(readers, cell, b"", None, fetch_row_sizes)):
        if number == _ROWS or not delta.deletes_subkey(subkey):
            stays = subkey
            break
    if stays is None:
        return CellDelta(cleared=True, added=delta.added)
    return attrs.evolve(
        delta,
        removed_ranges=((b"", stays), *delta.removed_ranges),
        removed=frozenset(subkey for subkey in delta.removed if subkey >= stays),
    )


def _estimate_deleted_bytes(
    readers: Sequence[SegmentReader], changes: Sequence[tuple[bytes, CellDelta]]
) -> int:
    """Returns the approximate bytes of live data that the changes delete or replace, by sampling if there are many."""
    if not readers:
        return 0
    ranges: list[tuple[bytes, Range]] = []
    subkeys: list[tuple[bytes, Range]] = []
    for cell, delta in changes:
        if delta.cleared:
            ranges.append((cell, (b"", None)))
        else:
            ranges += ((cell, bounds) for bounds in merge_subkey_ranges(delta.removed_ranges))
            subkeys += ((cell, (subkey, subkey + b"\0")) for subkey in delta.removed)
    hidden = 0
    for places in (ranges, subkeys):
        looked_at = places[:: len(places) // _PLACES + 1]
        weight = sum(_estimate_live_bytes(readers, cell, bounds) for cell, bounds in looked_at)
        hidden += weight * len(places) // max(1, len(looked_at))
    return hidden


def _estimate_live_bytes(readers: Sequence[SegmentReader], cell: bytes, bounds: Range) -> int:
    """Returns the approximate bytes of live data between two subkeys (map or sort keys). After many
    rows, deleted data counts, too.
    """
    start, end = bounds
    weight = 0
    for number, (subkey, weights) in enumerate(
        scan_live_rows(readers, cell, start, end, fetch_row_sizes)
    ):
        if number == _ROWS:
            return weight + sum(reader.sum_row_sizes(cell, subkey, end) for reader in readers)
        weight += sum(weights)
    return weight
