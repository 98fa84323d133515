"""Segments of state: immutable files of bundles' changes, each under a unique name.

Small segments are loaded completely (`small`). Large segments are read by cell and subkey (map or
sort key), see `table`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import xxhash

from beam_runner_data.rows.errors import SegmentError
from beam_runner_data.rows.refs import Segment
from beam_runner_data.state.masks import StateFilteredSegment
from beam_runner_data.state.records import Entry, SegmentReader
from beam_runner_data.state.shares import KeyFilteredSegment
from beam_runner_data.state.small import MAGIC as SMALL
from beam_runner_data.state.small import build_small_segment, load_small_segment
from beam_runner_data.state.table import MAGIC as TABLE
from beam_runner_data.state.table import TableSegment, write_table

SMALL_BYTES = 256 << 10
"""The approximate maximum size of a small segment, in bytes."""


def write_segment(
    folder: Path,
    name: str,
    entries: Iterable[Entry],
    *,
    net: int | None,
    level: int,
) -> Segment | None:
    """Writes sorted entries as a segment; returns None, and writes no file, if there are no entries.

    Args:
        name: the file's path, relative to the folder; unique to the attempt.
        entries: the entries, iterated once; a large segment is not completely in memory.
        net: see `SegmentReader.net`; None if no other segment exists.
        level: see `Segment.level`.

    Raises:
        FileExistsError: The name is not unique.
    """
    remaining = iter(entries)
    first, is_small = _take_small_entries(remaining)
    if not first:
        return None
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    with path.open("xb") as file:
        try:
            if is_small:
                contents = build_small_segment(first, net).encode_segment()
                file.write(contents)
                checksum = xxhash.xxh3_64_intdigest(contents)
            else:
                checksum = write_table(file, itertools.chain(first, remaining), net)
            file.flush()
            size = file.tell()
        except BaseException:
            path.unlink()
            raise
    return Segment(name, size, level, checksum)


def _take_small_entries(entries: Iterator[Entry]) -> tuple[list[Entry], bool]:
    """Reads entries until they exceed the size of a small segment; returns them, and whether all fit."""
    taken: list[Entry] = []
    size = 0
    for entry in entries:
        taken.append(entry)
        cell, _, subkey, _, payload = entry
        size += len(cell) + len(subkey) + (len(payload) if isinstance(payload, bytes) else 0)
        if size > SMALL_BYTES:
            return taken, False
    return taken, True


def open_segment(folder: Path, segment: Segment) -> SegmentReader:
    """Opens a segment for reading, or raises `SegmentError`. The reader skips the cells of masked states
    and of other shards.
    """
    reader = _open_file(folder, segment)
    if segment.masked:
        reader = StateFilteredSegment(reader, segment.masked)
    return reader if segment.share is None else KeyFilteredSegment(reader, segment.share)


def _open_file(folder: Path, segment: Segment) -> SegmentReader:
    path = folder / segment.path
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            magic = file.read(len(SMALL))
            contents = magic + file.read() if magic == SMALL else b""
    except FileNotFoundError as error:
        raise SegmentError.create_missing_error(path) from error
    except OSError as error:
        raise SegmentError.create_unreadable_error(path, error) from error
    if size != segment.size:
        raise SegmentError.create_damage_error(
            path, f"the file has {size} bytes; expected {segment.size}"
        )
    if magic == SMALL:
        return load_small_segment(path, contents, segment.checksum)
    if magic == TABLE:
        return TableSegment(path, segment.checksum)
    raise SegmentError.create_damage_error(path, "not a segment file (bad magic number)")
