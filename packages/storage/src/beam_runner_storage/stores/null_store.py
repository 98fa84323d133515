"""A store for machines without shared storage. The store contains no files, and refuses each new
file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from beam_runner_storage.stores.ports import FileStore, MissingFileError, NoStoreError


class NullStore(FileStore):
    """Store that refuses all files. Small data travels in the workers' replies instead."""

    def put_file(self, name: str, source: Path) -> None:
        raise _build_store_error(source.stat().st_size)

    def create_file(self, name: str, contents: bytes) -> bool:
        raise _build_store_error(len(contents))

    def read_file(self, name: str) -> bytes:
        raise MissingFileError(f"Can't read {name}: the server has no --data-dir")

    def fetch_file_part(self, name: str, target: Path, start: int, end: int | None = None) -> int:
        raise MissingFileError(f"Can't read {name}: the server has no --data-dir")

    def list_names(self) -> Iterator[str]:
        return iter(())

    def delete_files(self, names: Iterable[str]) -> None:
        pass

    def delete_unfinished_files(self, prefix: str) -> None:
        """Does nothing, because the store has no files."""


def _build_store_error(size: int) -> NoStoreError:
    return NoStoreError(
        f"{size:,} bytes exceed the maximum that a bundle can report without a data store"
    )
