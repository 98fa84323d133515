"""Builder of the index of a large side input: runs once for each job and version, in bounded memory.

The builder reads the rows in order, and partitions index entries by digest into files. Then it
sorts each partition in memory. The concatenated partitions are the index.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import uuid
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from beam_runner_engine.scheduler.data import Data

from beam_runner_data.rows.columns import decode_batch, get_windows
from beam_runner_data.rows.files import RowFile, RowFileWriter
from beam_runner_data.rows.refs import FileRows, RowsRef
from beam_runner_data.rows.row import Row, RowKind
from beam_runner_data.side_inputs.side_index import (
    DIGEST,
    EXTENT,
    GROUP,
    SideInputIndex,
    compute_digest,
    get_indexes_folder,
)
from beam_runner_data.side_inputs.side_index_files import (
    ArrayWriter,
    IndexFile,
    write_index_description,
)

PARTITION_BYTES = 32 << 20
"""Approximate size of a partition of index entries in bytes. A partition is sorted in memory."""
_MOST_PARTITIONS = 256
_ROWS_MAPPED = 64
_KEPT_VERSIONS = 2
_OWN_DATA = 0
_ENTRY = np.dtype(
    [
        ("high", "<u8"),
        ("low", "<u8"),
        ("key_at", "<u8"),
        ("value_at", "<u8"),
        ("key_size", "<u4"),
        ("value_size", "<u4"),
        ("count", "<u4"),
        ("source", "<u4"),
        ("window", "<u4"),
    ]
)
_Array = npt.NDArray  # type: ignore[type-arg]


def open_index(folder: Path, name: str, data: Sequence[Data]) -> SideInputIndex:
    """Returns the index of a side input, and builds it if it doesn't exist.

    Processes that need the index at the same time wait for the process that builds it. If that
    process dies, the next process builds the index.

    Args:
        data: all data of the side input, in order; KEYED rows, and no duplicates.
    """
    refs = [one.ref for one in data]
    first = next((ref.path for ref in refs if isinstance(ref, FileRows)), None)
    version = _compute_hash((name, *map(_describe_reference, refs)))
    place = get_indexes_folder(folder, first or f"inline-{_compute_hash(name)}")
    path = place / version
    if not path.is_dir():
        place.parent.mkdir(exist_ok=True)
        place.mkdir(exist_ok=True)
        with _hold_file_lock(place / f"{version}.lock"):
            if not path.is_dir():
                _build_index(folder, path, data)
                _remove_old_versions(place, path)
    return SideInputIndex(folder, path)


def _compute_hash(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=16).hexdigest()


def _describe_reference(ref: RowsRef) -> object:
    return (ref.path, ref.rows) if isinstance(ref, FileRows) else ref.name


@contextlib.contextmanager
def _hold_file_lock(path: Path) -> Iterator[None]:
    """Holds an exclusive file lock, which the operating system releases when this process exits."""
    with path.open("ab") as file:
        # Without file locks, two processes may build the index at the same time. Each process
        # renames its own result to the name of the index.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build_index(folder: Path, path: Path, data: Sequence[Data]) -> None:
    for left in path.parent.glob(f"{path.name}.*.part"):
        shutil.rmtree(left, ignore_errors=True)
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    part.mkdir()
    entries = sum(one.facts.count for one in data)
    try:
        with _IndexBuilder(folder, part, entries) as builder:
            for one in data:
                builder.add_rows(one.ref)
            builder.write_index()
        part.rename(path)
    except OSError:
        # Another process renamed its result first, which can happen only without file locks.
        if not path.is_dir():
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _remove_old_versions(place: Path, path: Path) -> None:
    """Removes all earlier versions of an index except the latest.

    A process that needs another version builds it again.
    """
    others = [p for p in place.iterdir() if p.is_dir() and p.suffix != ".part" and p != path]
    others.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    for old in others[_KEPT_VERSIONS:]:
        shutil.rmtree(old, ignore_errors=True)


class _IndexBuilder:
    """An index under construction in a separate folder."""

    def __init__(self, folder: Path, part: Path, entries: int) -> None:
        self._folder = folder
        self._part = part
        wanted = -(-entries * _ENTRY.itemsize // PARTITION_BYTES)
        self._count = max(1, min(_MOST_PARTITIONS, wanted))
        self._partitions = [(part / f"partition-{n}").open("wb") for n in range(self._count)]
        self._own = RowFileWriter(part / "data")
        self._sources: list[tuple[str, int]] = []
        self._windows: dict[bytes, int] = {}

    def __enter__(self) -> _IndexBuilder:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._partitions:
            file.close()

    def add_rows(self, ref: RowsRef) -> None:
        """Adds index entries for the rows of a reference."""
        if not isinstance(ref, FileRows):
            for _, data in ref.rows:
                self._partition_row(_RowLocation(_OWN_DATA, None), pa.py_buffer(data))
            return
        self._sources.append((ref.path, ref.checksum))
        for start in range(0, len(ref.rows), _ROWS_MAPPED):
            # Map the file again at intervals, so that pages already read don't count as memory.
            file = RowFile(self._folder / ref.path, ref.checksum)
            place = _RowLocation(len(self._sources), file.whole)
            for number in ref.rows[start : start + _ROWS_MAPPED]:
                self._partition_row(place, file.read_row(number)[1])

    def write_index(self) -> None:
        """Sorts the added entries, and writes the index."""
        files = {name: ArrayWriter(self._part / name) for name in ("hashes", "groups", "extents")}
        extents = 0
        for number, partition in enumerate(self._partitions):
            partition.close()
            path = self._part / f"partition-{number}"
            for file, array in zip(files.values(), _sort_partition(path, extents), strict=True):
                file.write(array)
                extents += len(array) if array.dtype == EXTENT else 0
            path.unlink()
        parts = {name: file.close() for name, file in files.items()}
        parts["data"] = IndexFile(0, self._own.close())
        about = {
            "sources": self._sources,
            "windows": [window.hex() for window in self._windows],
            "parts": {name: attrs.astuple(part) for name, part in parts.items()},
        }
        write_index_description(self._part / "about.json", about)

    def _partition_row(self, place: _RowLocation, row: pa.Buffer) -> None:
        batch = decode_batch(row)
        entries = self._build_entries(place, batch)
        if self._count == 1:
            entries.tofile(self._partitions[0])
            return
        # Scale the highest 32 bits of the key's hash to the number of partitions.
        numbers = ((entries["high"] >> np.uint64(32)) * np.uint64(self._count)) >> np.uint64(32)
        order = np.argsort(numbers, kind="stable")
        bounds = np.searchsorted(numbers[order], np.arange(self._count + 1, dtype=np.uint64))
        for number in np.flatnonzero(bounds[1:] > bounds[:-1]).tolist():
            entries[order[bounds[number] : bounds[number + 1]]].tofile(self._partitions[number])

    def _build_entries(self, place: _RowLocation, batch: pa.RecordBatch) -> _Array:
        """Returns one entry for each run of rows with the same window and key."""
        keys, values = batch.column("key"), batch.column("value")
        codes, digests, windows = self._compute_digests(batch)
        starts = np.concatenate(([0], np.flatnonzero(codes[1:] != codes[:-1]) + 1))
        ends = np.append(starts[1:], len(codes))
        entries = np.empty(len(starts), dtype=_ENTRY)
        own = digests[codes[starts]]
        entries["high"], entries["low"] = own["high"], own["low"]
        entries["window"] = windows[codes[starts]]
        entries["count"] = ends - starts
        key_offsets, value_offsets = _read_offsets(keys), _read_offsets(values)
        if place.is_mapped_array(keys) and place.is_mapped_array(values):
            entries["source"] = place.source
            key_at, value_at = place.find_offset(keys), place.find_offset(values)
        else:
            entries["source"] = _OWN_DATA
            key_at, value_at = self._copy_values(keys), self._copy_values(values)
        entries["key_at"] = key_at + key_offsets[starts]
        entries["key_size"] = key_offsets[starts + 1] - key_offsets[starts]
        entries["value_at"] = value_at + value_offsets[starts]
        entries["value_size"] = value_offsets[ends] - value_offsets[starts]
        return entries

    def _copy_values(self, array: pa.Array) -> int:
        at = self._own.at
        data = array.buffers()[2]
        if data is not None:
            self._own.write(Row(0, RowKind.ELEMENTS, data, len(array)))
        return at

    def _compute_digests(self, batch: pa.RecordBatch) -> tuple[_Array, _Array, _Array]:
        """Returns the code of each row, and the digest and the window number of each code.

        A code numbers a distinct pair of window and key.
        """
        keys = batch.column("key").dictionary_encode()
        codes = keys.indices.to_numpy().astype(np.int64)
        distinct = keys.dictionary.to_pylist()
        windows = get_windows(batch)
        if isinstance(windows, bytes):
            pairs = [(windows, key) for key in distinct]
        else:
            encoded = windows.dictionary_encode()
            names = encoded.dictionary.to_pylist()
            both = codes * len(names) + encoded.indices.to_numpy()
            seen, codes = np.unique(both, return_inverse=True)
            pairs = [(names[pair % len(names)], distinct[pair // len(names)]) for pair in seen]
        numbers = [self._windows.setdefault(window, len(self._windows)) for window, _ in pairs]
        digests = b"".join(compute_digest(window, key) for window, key in pairs)
        return codes, np.frombuffer(digests, dtype=DIGEST), np.array(numbers, dtype=np.uint32)


@attrs.frozen
class _RowLocation:
    """The location of a row's data: an offset in a memory-mapped file, or memory without a file."""

    source: int
    whole: pa.Buffer | None

    def is_mapped_array(self, array: pa.Array) -> bool:
        """Returns whether a binary array refers to the bytes of the mapped file, and not to a copy."""
        data = array.buffers()[2]
        if self.whole is None or data is None:
            return self.whole is not None
        begin = data.address - self.whole.address
        return bool(0 <= begin <= self.whole.size - data.size)

    def find_offset(self, array: pa.Array) -> int:
        """Returns the offset of an array's bytes in the file."""
        data = array.buffers()[2]
        assert self.whole is not None
        return 0 if data is None else int(data.address - self.whole.address)


def _read_offsets(array: pa.Array) -> _Array:
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)
    return offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)


def _sort_partition(path: Path, extents_before: int) -> tuple[_Array, _Array, _Array]:
    """Sorts the index entries of a partition file, and returns the partition's hashes, groups and extents."""
    entries = np.fromfile(path, dtype=_ENTRY)
    # The sort is stable, so the values of a key keep their order.
    entries = entries[np.lexsort((entries["low"], entries["high"]))]
    high, low = entries["high"], entries["low"]
    changes = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    starts = (
        np.concatenate(([0], np.flatnonzero(changes) + 1))
        if len(entries)
        else np.empty(0, dtype=np.int64)
    )
    groups = np.zeros(len(starts), dtype=GROUP)
    if len(starts):
        for name in ("low", "key_at", "key_size", "source", "window"):
            groups[name] = entries[name][starts]
        groups["first"] = starts + extents_before
        groups["extents"] = np.diff(np.append(starts, len(entries)))
        groups["size"] = np.add.reduceat(entries["value_size"], starts, dtype=np.uint64)
        groups["count"] = np.add.reduceat(entries["count"], starts, dtype=np.uint64)
    extents = np.empty(len(entries), dtype=EXTENT)
    extents["at"], extents["size"] = entries["value_at"], entries["value_size"]
    extents["source"] = entries["source"]
    return high[starts], groups, extents
