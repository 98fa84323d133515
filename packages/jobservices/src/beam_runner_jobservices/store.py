"""Files addressed by the hash of their content, kept as long as somebody holds them.

Layout of the folder, which belongs to one store at a time (POSIX file lock):

    lock                  held while the store is open
    incoming/<random>     files being written
    sha256/ab/abcdef...   complete files, read-only, moved here in one step

No name that a client gives is ever part of a path.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import attrs

from .errors import JobServicesError, NotFound

_HEX = frozenset("0123456789abcdef")


@attrs.frozen
class StoredFile:
    """A complete file of the store: hash in lower-case hexadecimal, length in bytes, absolute
    path.
    """

    sha256: str
    size: int
    path: Path


class IncomingFile:
    """A file being written; becomes part of the store with `commit`."""

    def __init__(self, store: ArtifactStore, owner: str, file: BinaryIO, path: Path) -> None:
        self._store = store
        self._owner = owner
        self._file = file
        self._path = path
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self._size += len(data)

    @property
    def sha256(self) -> str:
        """Hash of what has been written so far."""
        return self._hash.hexdigest()

    def commit(self) -> StoredFile:
        """Make the file part of the store, held by the owner."""
        self._file.flush()
        self._file.close()
        return self._store._adopt(self._owner, self._path, self.sha256, self._size)


class ArtifactStore:
    """The store in `folder`, which is made if it is not there. Thread-safe; files left by an
    earlier process are removed.

    Raises:
        JobServicesError: another store uses the folder.
        OSError: the folder cannot be made or written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._root = Path(folder).absolute()
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock_file = self._take_folder()
        self._incoming = self._root / "incoming"
        self._complete = self._root / "sha256"
        self._mutex = threading.Lock()
        self._held: dict[str, set[str]] = {}
        self._owners: dict[str, set[str]] = {}
        self._remove_files()
        self._incoming.mkdir()
        self._complete.mkdir()

    def _take_folder(self) -> BinaryIO:
        lock_file = (self._root / "lock").open("ab")
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock_file.close()
            raise JobServicesError(
                f"the artifacts folder {self._root} is in use by another server;"
                " give this one a folder of its own"
            ) from None
        return lock_file

    def _remove_files(self) -> None:
        for folder in (self._incoming, self._complete):
            if folder.exists():
                shutil.rmtree(folder)

    @contextmanager
    def incoming(self, owner: str) -> Iterator[IncomingFile]:
        """A new file to write, which disappears at the end of the `with` block unless it was
        committed.
        """
        path = self._incoming / secrets.token_hex(16)
        with open(path, "xb") as file:
            try:
                yield IncomingFile(self, owner, file, path)
            finally:
                path.unlink(missing_ok=True)

    def add(self, owner: str, data: bytes) -> StoredFile:
        """Store `data`, held by `owner`."""
        with self.incoming(owner) as file:
            file.write(data)
            return file.commit()

    def _adopt(self, owner: str, source: Path, sha256: str, size: int) -> StoredFile:
        target = self.path(sha256)
        with self._mutex:
            if sha256 not in self._owners:
                source.chmod(0o444)
                target.parent.mkdir(exist_ok=True)
                os.replace(source, target)
            self._owners.setdefault(sha256, set()).add(owner)
            self._held.setdefault(owner, set()).add(sha256)
        return StoredFile(sha256, size, target)

    def path(self, sha256: str) -> Path:
        """Where the file with this content is, or would be.

        Raises:
            NotFound: `sha256` is no such hash, whatever else it is.
        """
        if len(sha256) != 64 or not _HEX.issuperset(sha256):
            raise NotFound(f"{sha256!r} is not a sha256 hash in lower-case hexadecimal")
        return self._complete / sha256[:2] / sha256

    def open(self, sha256: str) -> BinaryIO:
        """Open a complete file for reading; it stays readable also if it is released meanwhile.

        Raises:
            NotFound: there is no such file.
        """
        try:
            return open(self.path(sha256), "rb")
        except FileNotFoundError:
            raise NotFound(
                f"no artifact with sha256 {sha256}; artifacts are removed when their job has ended"
            ) from None

    def release(self, owner: str) -> None:
        """Forget what `owner` holds, and remove the files that nobody else holds."""
        with self._mutex:
            for sha256 in self._held.pop(owner, ()):
                owners = self._owners[sha256]
                owners.discard(owner)
                if not owners:
                    del self._owners[sha256]
                    self.path(sha256).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all files and give up the folder. May be called more than once."""
        if not self._lock_file.closed:
            self._remove_files()
            self._lock_file.close()
