"""Store of files. The name of a file is the hash of the file's content. The store keeps a file as
long as the file has an owner, such as a job.

Layout of the folder, which belongs to one store at a time (POSIX file lock):

    lock                  held while the store is open
    beam-runner-folder.json
                          marks the folder as the store's, see `folders`
    incoming/<random>     files being written
    sha256/ab/abcdef...   complete files, read-only, moved here atomically

No path contains a name that a client sends.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import attrs
from beam_runner_storage.durable.folders import ARTIFACTS, lock_folder, sync_folder

from beam_runner_jobservices.errors import DiskFull, NotFound

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_HEX = frozenset("0123456789abcdef")


@attrs.frozen
class StoredFile:
    """A complete file of the store: hash in lower-case hexadecimal, length in bytes, absolute path."""

    sha256: str
    size: int
    path: Path


class RemoteFiles(Protocol):
    """Remote store for copies of the artifact files, for a server on another machine. Thread-safe.

    Raises:
        Unavailable: raised by each method except `delete`, if the remote store doesn't answer or
            refuses.
    """

    def put(self, sha256: str, file: Path) -> str:
        """Stores a copy of a file under a unique name. Returns the name. The copy is durable when
        the method returns.
        """

    def fetch(self, name: str, target: Path) -> None:
        """Downloads a copy to `target`. The local file appears only when it is complete."""

    def names(self) -> Mapping[str, str]:
        """Returns the content hash of each copy, by the name of the copy."""

    def delete(self, names: Iterable[str]) -> None:
        """Removes copies, unless another server has taken over.

        Copies that can't be removed stay until the next server starts.
        """


class IncomingFile:
    """A file that is being written. `commit` adds the file to the store."""

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
        """The hash of the data written so far."""
        return self._hash.hexdigest()

    def commit(self) -> StoredFile:
        """Adds the file to the store. The file stays at least until the owner releases it.

        Raises:
            Unavailable: the remote store doesn't accept a copy of the file.
        """
        self._file.flush()
        if self._store.outlives_process:
            os.fsync(self._file.fileno())
        self._file.close()
        copy = self._store._copy_to_remote(self._owner, self._path, self.sha256)
        return self._store._move_file_to_store(
            self._owner, self._path, self.sha256, self._size, copy
        )


class ArtifactStore:
    """The artifact files in `folder`, which is created if it doesn't exist. Thread-safe.

    `held` lists, for each owner, the hashes of the files that the owner holds. With `held`, files
    outlive the process: held files that exist stay, and a file is on the disk when `commit`
    returns. The store removes all other files of an earlier process. Without `held`, the store
    removes all files at start and in `close`. With `far`, the store downloads held files that the
    folder lacks, and removes remote copies without an owner.

    Raises:
        RunnerError: another store uses the folder, the folder belongs to another program (see
            `folders`), or `far` doesn't answer.
        OSError: the folder can't be created or written.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        held: Mapping[str, Iterable[str]] | None = None,
        far: RemoteFiles | None = None,
    ) -> None:
        self._root = Path(folder).absolute()
        self.outlives_process = held is not None
        self._lock_file = lock_folder(self._root, "lock", ARTIFACTS)
        self._incoming = self._root / "incoming"
        self._complete = self._root / "sha256"
        self._mutex = threading.Lock()
        self._held: dict[str, set[str]] = {}
        self._owners: dict[str, set[str]] = {}
        self._far = far
        self._copies: dict[str, str] = {}
        if far is not None and held is not None:
            self._download_held_files(
                far, {sha256 for hashes in held.values() for sha256 in hashes}
            )
        for owner, hashes in (held or {}).items():
            for sha256 in hashes:
                if self.get_path(sha256).exists():
                    self._add_owner(owner, sha256)
        self._remove_unowned_files()
        self._incoming.mkdir(mode=0o700)
        self._complete.mkdir(exist_ok=True, mode=0o700)

    def _download_held_files(self, far: RemoteFiles, held: set[str]) -> None:
        """Downloads the held files that the folder lacks, and removes all other copies."""
        others = []
        for name, sha256 in far.names().items():
            if sha256 in held and sha256 not in self._copies:
                self._copies[sha256] = name
            else:
                others.append(name)
        for sha256, name in self._copies.items():
            path = self.get_path(sha256)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                far.fetch(name, path)
        far.delete(others)

    def _remove_unowned_files(self) -> None:
        """Removes the files without an owner."""
        if self._incoming.exists():
            shutil.rmtree(self._incoming, ignore_errors=True)
        if not self._owners and self._complete.exists():
            shutil.rmtree(self._complete)
        for path in self._complete.glob("*/*"):
            if path.name not in self._owners:
                path.unlink()

    @contextmanager
    def open_incoming_file(self, owner: str) -> Iterator[IncomingFile]:
        """Opens a new file for writing. At the end of the `with` block, the file is deleted unless it
        was committed.

        Raises:
            DiskFull: the disk has no room for the file.
        """
        path = self._incoming / secrets.token_hex(16)
        try:
            with open(path, "xb", opener=_open_private_file) as file:
                yield IncomingFile(self, owner, file, path)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise DiskFull(
                f"Can't store the job's artifacts ({error.strerror}): the server's disk"
                " or quota is full; free some space, and submit the job again"
            ) from error
        finally:
            path.unlink(missing_ok=True)

    def add_file(self, owner: str, data: bytes) -> StoredFile:
        """Stores `data` as a file. The file stays at least until `owner` releases it."""
        with self.open_incoming_file(owner) as file:
            file.write(data)
            return file.commit()

    def _copy_to_remote(self, owner: str, source: Path, sha256: str) -> str | None:
        """Copies a file to the remote store, before this store lists the file as its own. Returns
        the name of the copy, or None without a new copy.
        """
        if self._far is None:
            return None
        with self._mutex:
            if sha256 in self._owners:
                # Don't copy the file again: the remote copy stays as long as the file has an owner.
                self._add_owner(owner, sha256)
                return None
        return self._far.put(sha256, source)

    def _move_file_to_store(
        self, owner: str, source: Path, sha256: str, size: int, copy: str | None
    ) -> StoredFile:
        """Moves a received file into the store, unless the store already has a file with this content.
        Registers the owner in both cases.
        """
        target = self.get_path(sha256)
        superfluous = copy
        with self._mutex:
            if sha256 not in self._owners:
                source.chmod(0o400)
                target.parent.mkdir(exist_ok=True, mode=0o700)
                os.replace(source, target)
                if self.outlives_process:
                    sync_folder(target.parent)
                    sync_folder(self._complete)
                if copy is not None:
                    self._copies[sha256] = copy
                    superfluous = None
            self._add_owner(owner, sha256)
        self._remove_copies([superfluous])
        return StoredFile(sha256, size, target)

    def _remove_copies(self, names: Iterable[str | None]) -> None:
        some = [name for name in names if name is not None]
        if self._far is not None and some:
            self._far.delete(some)

    def _add_owner(self, owner: str, sha256: str) -> None:
        self._owners.setdefault(sha256, set()).add(owner)
        self._held.setdefault(owner, set()).add(sha256)

    def get_path(self, sha256: str) -> Path:
        """Returns the path for a file with this content, whether or not the file exists.

        Raises:
            NotFound: `sha256` is not a valid hash.
        """
        if len(sha256) != 64 or not _HEX.issuperset(sha256):
            raise NotFound(f"{sha256!r} isn't a sha256 hash in lower-case hexadecimal")
        return self._complete / sha256[:2] / sha256

    def open_file(self, sha256: str) -> BinaryIO:
        """Opens a complete file for reading. The open file stays readable if the store deletes the
        file.

        Raises:
            NotFound: the file doesn't exist.
        """
        try:
            return open(self.get_path(sha256), "rb")
        except FileNotFoundError:
            raise NotFound(
                f"no artifact with sha256 {sha256}; the server removes artifacts when"
                " their job ends"
            ) from None

    def hold_files(self, owner: str, hashes: Iterable[str]) -> None:
        """Adds an owner to files of the store. Skips files that the store doesn't have."""
        with self._mutex:
            for sha256 in hashes:
                if sha256 in self._owners:
                    self._add_owner(owner, sha256)

    def release_files(self, owner: str) -> None:
        """Releases the files that `owner` holds, and deletes the files that no other owner holds."""
        copies = []
        with self._mutex:
            for sha256 in self._held.pop(owner, ()):
                owners = self._owners[sha256]
                owners.discard(owner)
                if not owners:
                    del self._owners[sha256]
                    self.get_path(sha256).unlink(missing_ok=True)
                    copies.append(self._copies.pop(sha256, None))
        self._remove_copies(copies)

    def close(self) -> None:
        """Releases the folder, and removes files that needn't outlive the process. May be called more than once."""
        if not self._lock_file.closed:
            if not self.outlives_process:
                with self._mutex:
                    self._owners.clear()
                    self._held.clear()
            self._remove_unowned_files()
            self._lock_file.close()


def _open_private_file(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
