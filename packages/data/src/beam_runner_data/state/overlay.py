"""Combination of several state segments: reads the content that no newer segment deletes, and
merges segments into one segment.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar

from beam_runner_data.state.records import (
    HIDES,
    ROW,
    DeletedSubkeys,
    Entry,
    SegmentReader,
    decode_values,
    encode_values,
)

_T = TypeVar("_T")
Fetch: TypeAlias = Callable[
    [SegmentReader, bytes, bytes, bytes | None], Iterator[tuple[bytes, bool, _T | None]]
]


def fetch_row_data(
    reader: SegmentReader, cell: bytes, start: bytes, end: bytes | None
) -> Iterator[tuple[bytes, bool, bytes | None]]:
    """Reads rows with data; a reading mode of `scan_live_rows`."""
    return reader.read_rows(cell, start, end)


def fetch_row_sizes(
    reader: SegmentReader, cell: bytes, start: bytes, end: bytes | None
) -> Iterator[tuple[bytes, bool, int | None]]:
    """Reads rows with their sizes (bytes) instead of their data; a reading mode of `scan_live_rows`."""
    return reader.read_row_sizes(cell, start, end)


def find_live_values(readers: Sequence[SegmentReader], cell: bytes, subkey: bytes) -> list[bytes]:
    """Returns the values that a cell stores at a subkey (map or sort key) after all deletions,
    oldest first; empty if the subkey is absent.

    Live values are those that no newer segment replaces.
    """
    found: list[bytes] = []
    for reader in reversed(readers):
        row = reader.read_row(cell, subkey)
        if row is not None:
            replaces, data = row
            if data is not None:
                found.append(data)
            if replaces:
                break
        hides = reader.read_deleted_subkeys(cell)
        if hides is not None and hides.contains_subkey(subkey):
            break
    found.reverse()
    return found


def scan_live_rows(
    readers: Sequence[SegmentReader],
    cell: bytes,
    start: bytes,
    end: bytes | None,
    fetch: Fetch[_T],
) -> Iterator[tuple[bytes, list[_T]]]:
    """Yields the existing subkeys (map or sort keys) from `start` to before `end`, with the data of
    each, oldest first.

    The order is ascending, and rows are read lazily. The scan skips ranges that newer segments
    delete.
    """
    layers: list[Iterator[tuple[bytes, int, bool, _T | None]]] = []
    newer = DeletedSubkeys()
    for age, reader in enumerate(reversed(readers)):
        first = newer.find_next_remaining_subkey(start)
        if first is not None:
            layers.append(_skip_deleted_rows(fetch(reader, cell, first, end), age, newer))
        hides = reader.read_deleted_subkeys(cell)
        if hides is not None:
            newer = newer.merge_with(hides)
            if newer.cleared:
                break
    for subkey, versions in groupby(_merge_sorted(layers), key=itemgetter(0)):
        found: list[_T] = []
        for _, _, replaces, payload in versions:
            if payload is not None:
                found.append(payload)
            if replaces:
                break
        if found:
            found.reverse()
            yield subkey, found


def merge_segments(readers: Sequence[SegmentReader], *, oldest: bool) -> Iterator[Entry]:
    """Yields the entries of one segment that replaces the given segments, oldest first.

    If no older segment exists, the result omits tombstones.
    """
    streams = [_add_segment_age(reader, age) for age, reader in enumerate(reversed(readers))]
    here: bytes | None = None
    hides: list[tuple[int, DeletedSubkeys]] = []
    together = DeletedSubkeys()
    for (cell, kind, subkey), versions in groupby(_merge_sorted(streams), key=itemgetter(0, 1, 2)):
        if cell != here:
            here, hides, together = cell, [], DeletedSubkeys()
        if kind == HIDES:
            hides = [
                (age, DeletedSubkeys(flag, payload)) for _, _, _, age, flag, payload in versions
            ]
            for _, one in hides:
                together = together.merge_with(one)
            if not oldest:
                yield cell, HIDES, b"", together.cleared, together.ranges
            continue
        replaces, data = _join_row_versions(subkey, versions, hides)
        if oldest:
            replaces = False
        if data is not None or (replaces and not together.contains_subkey(subkey)):
            yield cell, ROW, subkey, replaces, data


def _join_row_versions(
    subkey: bytes, versions: Iterator[tuple[Any, ...]], hides: Sequence[tuple[int, DeletedSubkeys]]
) -> tuple[bool, bytes | None]:
    """Yields the `replaces` flag and the data of the rows at one subkey (map or sort key), newest
    first. Omits rows that newer segments delete or replace.
    """
    last = min((age for age, one in hides if one.contains_subkey(subkey)), default=None)
    found: list[bytes] = []
    replaces = False
    for _, _, _, age, flag, payload in versions:
        if last is not None and age > last:
            break
        if payload is not None:
            found.append(payload)
        if flag:
            replaces = True
            break
    if len(found) > 1:
        found.reverse()
        return replaces, encode_values(decode_values(found))
    return replaces, found[0] if found else None


def _skip_deleted_rows(
    rows: Iterator[tuple[bytes, bool, _T | None]], age: int, newer: DeletedSubkeys
) -> Iterator[tuple[bytes, int, bool, _T | None]]:
    for subkey, replaces, payload in rows:
        if not newer.ranges or not newer.contains_subkey(subkey):
            yield subkey, age, replaces, payload


def _add_segment_age(reader: SegmentReader, age: int) -> Iterator[tuple[Any, ...]]:
    for cell, kind, subkey, flag, payload in reader.read_entries():
        yield cell, kind, subkey, age, flag, payload


def _merge_sorted(streams: Sequence[Iterator[_T]]) -> Iterator[_T]:
    return streams[0] if len(streams) == 1 else heapq.merge(*streams)  # type: ignore[type-var]
