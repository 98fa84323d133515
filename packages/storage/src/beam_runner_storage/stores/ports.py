"""The interface of stores, and their errors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from beam_runner_storage.errors import StorageError


class StoreError(StorageError):
    """A store can't be used, or not now; says which, what it answered, and what to do."""


class MissingFileError(StoreError):
    """A store has no file of a name, which was committed."""


class NoPlaceError(StoreError):
    """Nobody has named a store, and it would do no good to try again.

    Args:
        need: why one is needed.
    """

    def __init__(self, need: str) -> None:
        super().__init__(
            f"{need}, but the machines share no storage for data between stages: start"
            " the server with --data-dir s3://BUCKET/PREFIX (or gs://, az://, abfss://,"
            " hdfs://), or with a folder that all machines have under the same path"
        )


class FileStore(Protocol):
    """Files that never change, each under a name that nobody else gives to another one.

    Of several writers that create the same file, one is the first, and the store tells all others so.

    All methods may be called from any thread, wait for the store's answer, and try again by themselves for a while
    what a store refuses for a moment.

    Raises:
        StoreError: each of them, if the store does not answer, or refuses.
    """

    def put(self, name: str, source: Path) -> None:
        """Keeps a copy of a local file; on return it is durable, and whoever asks for it gets it."""

    def create(self, name: str, contents: bytes) -> bool:
        """Keeps a small file if there is none of this name; says whether it does.

        Where the answer got lost and it was asked again, the file that is there already may be this one.
        """

    def read(self, name: str) -> bytes:
        """A small file.

        Raises:
            MissingFileError: there is no such file.
        """

    def fetch(self, name: str, target: Path) -> int:
        """Makes a local copy, which is whole from the first moment on; returns its size in bytes.

        Raises:
            MissingFileError: there is no such file.
        """
        part = target.with_name(f".{target.name}.part")
        part.unlink(missing_ok=True)
        size = self.fetch_part(name, part, 0)
        os.replace(part, target)
        return size

    def fetch_part(self, name: str, target: Path, start: int, end: int | None = None) -> int:
        """Copies bytes of a file to the same place of a local one, which is made as long as the whole file.

        Args:
            name: the file's.
            target: the local file, which need not be there; what it has elsewhere stays.
            start: where they begin; below 0, so many bytes before the end, or all if there are fewer.
            end: where they end; at the end of the file by default.

        Returns:
            The size of the whole file in bytes.

        Raises:
            MissingFileError: there is no such file.
        """

    def names(self) -> Iterator[str]:
        """The names of all files; costs a request for each thousand."""

    def delete(self, names: Iterable[str]) -> None:
        """Removes files, those that are there; costs a request for each thousand."""
