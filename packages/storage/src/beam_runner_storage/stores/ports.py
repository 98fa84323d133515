"""The interface of file stores, and the errors of stores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from beam_runner_storage.errors import StorageError


class StoreError(StorageError):
    """Error of an unusable store; the message has the name of the store, its response and the fix."""


class MissingFileError(StoreError):
    """Error for a committed file that a store doesn't have."""


class NoStoreError(StoreError):
    """Error for a file that needs a store, if no store is configured; a retry fails too.

    Args:
        need: text that says why the file needs a store.
    """

    def __init__(self, need: str) -> None:
        super().__init__(
            f"{need}, but the machines share no storage for data between stages: start"
            " the server with --data-dir s3://BUCKET/PREFIX (or gs://, az://, abfss://,"
            " hdfs://), or with a folder that all machines have under the same path"
        )


class FileStore(Protocol):
    """Store of immutable files, each with a unique name.

    If several writers create the same file, exactly one is the first, and the store reports this to
    all others. All methods are thread-safe, wait for the store's response, and retry transient
    errors.

    Raises:
        StoreError: The store doesn't respond, or refuses the request. Every method can raise this
            error.
    """

    def put_file(self, name: str, source: Path) -> None:
        """Uploads a copy of a local file; on return the copy is durable and visible to all readers."""

    def create_file(self, name: str, contents: bytes) -> bool:
        """Creates a small file if the name is free, and returns whether this call created it.

        If the response to a request is lost, the retry can find the file of this call and return
        False.
        """

    def read_file(self, name: str) -> bytes:
        """Returns the contents of a small file.

        Raises:
            MissingFileError: The file doesn't exist.
        """

    def fetch_file(self, name: str, target: Path) -> int:
        """Downloads a file, and returns its size in bytes; ``target`` never contains a partial copy.

        Raises:
            MissingFileError: The file doesn't exist.
        """
        part = target.with_name(f".{target.name}.part")
        part.unlink(missing_ok=True)
        size = self.fetch_file_part(name, part, 0)
        os.replace(part, target)
        return size

    def fetch_file_part(self, name: str, target: Path, start: int, end: int | None = None) -> int:
        """Downloads a range of bytes to the same offset of a local file, which gets the size of the
        complete file.

        Args:
            name: name of the file.
            target: local file, created if it doesn't exist; its other bytes don't change.
            start: start offset; a negative value counts from the end of the file.
            end: end offset; the end of the file by default.

        Returns:
            The size of the complete file in bytes.

        Raises:
            MissingFileError: The file doesn't exist.
        """

    def list_names(self) -> Iterator[str]:
        """Yields the names of all files; sends a request per thousand files."""

    def delete_files(self, names: Iterable[str]) -> None:
        """Removes files, and ignores missing files; sends a request per thousand files."""

    def delete_unfinished_files(self, prefix: str) -> None:
        """Removes unfinished files that writers have left, if their final names begin with a prefix.

        Call this method only if no file with the prefix will be written again. A running writer of such
        a file fails.

        Args:
            prefix: beginning of names, with all of their folders.
        """
