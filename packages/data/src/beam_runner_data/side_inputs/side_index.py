"""The on-disk index of a large side input, which finds the values of a window and key.

An index is a folder of immutable files:

| file | one entry for each |
|---|---|
| `hashes` | window and key: the first half of their digest, ascending |
| `groups` | the same, in the same order: the rest of the digest, the key's position, the number of values |
| `extents` | contiguous run of values of one window and key: its position |
| `data` | bytes of values and keys that are in no other file |
| `about.json` | the files of the extents, and the windows; the checksums of all files |

Values stay in their original files. A look-up is a binary search in the mapped `hashes` and one
read for each extent. Two keys with the same digest of 16 bytes count as the same key.
"""

from __future__ import annotations

import shutil
import struct
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt
from beam_runner_model.lengths import COUNT_BYTES, encode_count
from beam_runner_model.value_pieces import PIECE_BYTES, ValuePieces

from beam_runner_data.rows.refs import SIDE
from beam_runner_data.rows.values import join_parts_to_pieces
from beam_runner_data.side_inputs.side_index_files import (
    IndexFile,
    SourceFiles,
    VerifiedArray,
    read_index_description,
)

HASH = np.dtype("<u8")
DIGEST = np.dtype([("high", "<u8"), ("low", "<u8")])
GROUP = np.dtype(
    [
        ("low", "<u8"),
        ("first", "<u8"),
        ("size", "<u8"),
        ("count", "<u8"),
        ("key_at", "<u8"),
        ("key_size", "<u4"),
        ("source", "<u4"),
        ("window", "<u4"),
        ("extents", "<u4"),
    ]
)
EXTENT = np.dtype([("at", "<u8"), ("source", "<u4"), ("size", "<u4")])

_DIGEST = struct.Struct("<QQ")
_LENGTH = struct.Struct("<I")

Groups = npt.NDArray[np.void]


def get_indexes_folder(folder: Path, file: str) -> Path:
    """Returns the folder of the indexes whose first row file is the given file of the job."""
    return folder / SIDE / file


def remove_indexes(folder: Path, file: str) -> None:
    """Removes the indexes that need a removed row file."""
    indexes = get_indexes_folder(folder, file)
    if indexes.is_dir():
        shutil.rmtree(indexes, ignore_errors=True)


def compute_digest(window: bytes, key: bytes) -> bytes:
    """Returns the digest of an encoded window and key: 16 bytes."""
    return blake2b(b"".join((_LENGTH.pack(len(window)), window, key)), digest_size=16).digest()


class SideInputIndex:
    """Reader of an existing side-input index; thread-safe."""

    def __init__(self, folder: Path, path: Path) -> None:
        about = read_index_description(path / "about.json")
        self._windows = {bytes.fromhex(text): n for n, text in enumerate(about["windows"])}
        parts = {name: IndexFile(*part) for name, part in about["parts"].items()}
        sources = [(folder / name, checksum) for name, checksum in about["sources"]]
        self._files = SourceFiles([(path / "data", parts["data"].checksum), *sources])
        self._hashes = VerifiedArray(path / "hashes", HASH, parts["hashes"])
        self._groups = VerifiedArray(path / "groups", GROUP, parts["groups"])
        self._extents = VerifiedArray(path / "extents", EXTENT, parts["extents"])

    def read_values(self, window: bytes, key: bytes) -> bytes | ValuePieces:
        """Returns all values of a key in a window, in their original order."""
        place = self._find_group(window, key)
        if place is None:
            return b""
        group = self._read_group(place)
        first, extents = int(group["first"]), int(group["extents"])
        if group["size"] <= PIECE_BYTES:
            return self._read_extents(first, first + extents)
        sizes = self._extents.read_part(first, first + extents)["size"]
        return join_parts_to_pieces(
            sizes, lambda start, end: self._read_extents(first + start, first + end)
        )

    def read_keys(self, window: bytes) -> bytes | ValuePieces:
        """Yields the distinct keys of a window, in the order of their digests."""
        chosen = self._read_groups_of_window(window)

        def read(start: int, end: int) -> bytes:
            return b"".join(self._read_key(group) for group in chosen[start:end])

        return join_parts_to_pieces(chosen["key_size"], read)

    def read_groups(self, window: bytes) -> bytes | ValuePieces:
        """Yields each key of a window, the number of its values and its values, in the order of `read_keys`."""
        chosen = self._read_groups_of_window(window)

        def read(start: int, end: int) -> bytes:
            parts: list[bytes] = []
            for group in chosen[start:end]:
                first = int(group["first"])
                values = self._read_extents(first, first + int(group["extents"]))
                parts += (self._read_key(group), encode_count(int(group["count"])), values)
            return b"".join(parts)

        return join_parts_to_pieces(chosen["size"] + chosen["key_size"] + COUNT_BYTES, read)

    def _find_group(self, window: bytes, key: bytes) -> int | None:
        high, low = _DIGEST.unpack(compute_digest(window, key))
        place = self._hashes.find_insertion_index(np.uint64(high))
        while place < len(self._hashes) and self._hashes.read_part(place, place + 1)[0] == high:
            if self._read_group(place)["low"] == low:
                return place
            place += 1
        return None

    def _read_group(self, place: int) -> np.void:
        group: np.void = self._groups.read_part(place, place + 1)[0]
        return group

    def _read_groups_of_window(self, window: bytes) -> Groups:
        """Yields the groups of a window; scans all groups."""
        groups = self._groups.read_all()
        number = self._windows.get(window)
        return groups[:0] if number is None else groups[groups["window"] == number]

    def _read_key(self, group: np.void) -> bytes:
        return self._files.read(int(group["source"]), int(group["key_at"]), int(group["key_size"]))

    def _read_extents(self, first: int, last: int) -> bytes:
        if last - first == 1:
            (extent,) = self._extents.read_part(first, last)
            return self._files.read(int(extent["source"]), int(extent["at"]), int(extent["size"]))
        extents = self._extents.read_part(first, last)
        source, at, size = extents["source"], extents["at"], extents["size"]
        begins = (source[1:] != source[:-1]) | (at[1:] != at[:-1] + size[:-1])
        starts = np.concatenate(([0], np.flatnonzero(begins) + 1))
        sizes = np.add.reduceat(size, starts, dtype=np.int64)
        runs = zip(source[starts].tolist(), at[starts].tolist(), sizes.tolist(), strict=True)
        return b"".join(self._files.read(*run) for run in runs)
