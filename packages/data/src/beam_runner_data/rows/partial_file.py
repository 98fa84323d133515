"""A local sparse copy of a file in a store, which contains the rows that this machine requested."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from beam_runner_storage.stores.ports import FileStore

from beam_runner_data.rows.extents import REQUEST_BYTES, find_byte_ranges, mark_rows_within_ranges
from beam_runner_data.rows.files import find_directory, read_directory


class PartialFile:
    """Local copy of a file in a store, to which downloaded rows are added. Only one thread at a
    time may use the copy.

    A second file lists the available rows, until all rows are available.

    Args:
        path: the path of the local file, which need not exist.
    """

    def __init__(self, store: FileStore, name: str, path: Path) -> None:
        self._store = store
        self._name = name
        self._path = path
        self._told = path.with_name(f".{path.name}.rows")

    @property
    def is_complete(self) -> bool:
        """Whether the local file contains the complete file."""
        return self._path.exists() and not self._told.exists()

    def fetch_all(self) -> int:
        """Downloads the complete file, replaces the local file, and returns the number of downloaded
        bytes.

        Raises:
            StoreError: The store doesn't return the file.
        """
        if self.is_complete:
            return 0
        size = self._store.fetch_file(self._name, self._path)
        self._told.unlink(missing_ok=True)
        return size

    def fetch_rows(self, rows: Collection[int]) -> int:
        """Downloads the requested rows that are missing, and returns the number of downloaded bytes.

        If the file isn't a row file, or lacks a requested row, the method downloads the complete
        file, and the reader of the file reports the error.

        Raises:
            StoreError: The store doesn't return the file.
        """
        came = 0 if self._path.exists() else self._fetch_directory()
        if self.is_complete:
            return came
        directory = self._read_directory()
        if directory is None or max(rows, default=0) >= len(directory):
            return came + self.fetch_all()
        there = np.frombuffer(self._told.read_bytes(), np.bool_)
        runs = find_byte_ranges(directory, [row for row in rows if not there[row]])
        for start, end in runs:
            self._store.fetch_file_part(self._name, self._path, start, end)
            came += end - start
        if runs:
            self._write_available_rows(there | mark_rows_within_ranges(directory, runs))
        return came

    def remove_file(self) -> None:
        """Removes the local file; a hard link to the file stays."""
        self._path.unlink(missing_ok=True)
        self._told.unlink(missing_ok=True)

    def _fetch_directory(self) -> int:
        """Downloads the file's directory and the rows next to the directory, and returns the number
        of downloaded bytes.
        """
        part = self._path.with_name(f".{self._path.name}.part")
        part.unlink(missing_ok=True)
        size = self._store.fetch_file_part(self._name, part, -REQUEST_BYTES)
        came = min(size, REQUEST_BYTES)
        self._told.unlink(missing_ok=True)
        if came < size:
            rest, start = size - came, find_directory(_map_file_into_memory(part))
            if start is None:
                part.unlink()
                return came + self.fetch_all()
            if start < rest:
                self._store.fetch_file_part(self._name, part, start, rest)
                came += rest - start
            self._write_available_rows(
                mark_rows_within_ranges(
                    read_directory(_map_file_into_memory(part), start), [(rest, size)]
                )
            )
        os.replace(part, self._path)
        return came

    def _read_directory(self) -> npt.NDArray[np.void] | None:
        whole = _map_file_into_memory(self._path)
        start = find_directory(whole)
        return None if start is None else read_directory(whole, start)

    def _write_available_rows(self, there: npt.NDArray[np.bool_]) -> None:
        if there.all():
            self._told.unlink(missing_ok=True)
            return
        part = self._told.with_name(f"{self._told.name}.part")
        part.write_bytes(there.tobytes())
        os.replace(part, self._told)


def _map_file_into_memory(path: Path) -> pa.Buffer:
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()
