"""Files addressed by the hash of their content, kept as long as somebody holds them.

Layout of the folder, which belongs to one store at a time (POSIX file lock):

    lock                  held while the store is open
    beam-runner-folder.json
                          marks it as ours, see `folders`
    incoming/<random>     files being written
    sha256/ab/abcdef...   complete files, read-only, moved here in one step

No name that a client gives is ever part of a path.
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
from beam_runner_storage.durable.folders import ARTIFACTS, hold_folder, sync_folder

from beam_runner_jobservices.errors import DiskFull, NotFound

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_HEX = frozenset("0123456789abcdef")


@attrs.frozen
class StoredFile:
    """A complete file of the store: hash in lower-case hexadecimal, length in bytes, absolute
    path.
    """

    sha256: str
    size: int
    path: Path


class FarFiles(Protocol):
    """A place that outlives this machine, for copies of the store's files. Thread-safe.

    Raises:
        Unavailable: each of them but `delete`, if the place does not answer, or refuses.
    """

    def put(self, sha256: str, file: Path) -> str:
        """Keeps a copy; returns its name, which no other copy has. On return it is durable."""

    def fetch(self, name: str, target: Path) -> None:
        """Brings a copy here, which is whole from the first moment on."""

    def names(self) -> Mapping[str, str]:
        """The hashes of all copies, by name."""

    def delete(self, names: Iterable[str]) -> None:
        """Removes copies, unless another server has taken over. Those that can't be removed stay until the next
        server starts.
        """


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
        """Make the file part of the store, held by the owner.

        Raises:
            Unavailable: it is to be kept elsewhere, too, and that place does not take it.
        """
        self._file.flush()
        if self._store.outlives_process:
            os.fsync(self._file.fileno())
        self._file.close()
        copy = self._store._copied(self._owner, self._path, self.sha256)
        return self._store._adopt(self._owner, self._path, self.sha256, self._size, copy)


class ArtifactStore:
    """The store in `folder`, which is made if it is not there. Thread-safe.

    With `held`, which says per owner what it holds by sha256, the files outlive the process: those
    that are held are still there, as far as they were, and complete ones are on the disk when
    `commit` returns. All other files left by an earlier process are removed. Without it all are
    removed, also by `close`. With `far`, too, those that are held are brought from there where they are not
    in the folder, and copies that nobody holds are removed there.

    Raises:
        RunnerError: another store uses the folder, or it is not ours, see `folders`; or `far` does not
            answer.
        OSError: the folder cannot be made or written.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        held: Mapping[str, Iterable[str]] | None = None,
        far: FarFiles | None = None,
    ) -> None:
        self._root = Path(folder).absolute()
        self.outlives_process = held is not None
        self._lock_file = hold_folder(self._root, "lock", ARTIFACTS)
        self._incoming = self._root / "incoming"
        self._complete = self._root / "sha256"
        self._mutex = threading.Lock()
        self._held: dict[str, set[str]] = {}
        self._owners: dict[str, set[str]] = {}
        self._far = far
        self._copies: dict[str, str] = {}
        if far is not None and held is not None:
            self._bring(far, {sha256 for hashes in held.values() for sha256 in hashes})
        for owner, hashes in (held or {}).items():
            for sha256 in hashes:
                if self.path(sha256).exists():
                    self._hold(owner, sha256)
        self._remove_files()
        self._incoming.mkdir(mode=0o700)
        self._complete.mkdir(exist_ok=True, mode=0o700)

    def _bring(self, far: FarFiles, held: set[str]) -> None:
        """Bring copies of what is held here, and remove all others."""
        others = []
        for name, sha256 in far.names().items():
            if sha256 in held and sha256 not in self._copies:
                self._copies[sha256] = name
            else:
                others.append(name)
        for sha256, name in self._copies.items():
            path = self.path(sha256)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                far.fetch(name, path)
        far.delete(others)

    def _remove_files(self) -> None:
        """Remove what nobody holds."""
        if self._incoming.exists():
            shutil.rmtree(self._incoming)
        if not self._owners and self._complete.exists():
            shutil.rmtree(self._complete)
        for path in self._complete.glob("*/*"):
            if path.name not in self._owners:
                path.unlink()

    @contextmanager
    def incoming(self, owner: str) -> Iterator[IncomingFile]:
        """A new file to write, which disappears at the end of the `with` block unless it was
        committed.

        Raises:
            DiskFull: there is no room for it.
        """
        path = self._incoming / secrets.token_hex(16)
        try:
            with open(path, "xb", opener=_private) as file:
                yield IncomingFile(self, owner, file, path)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise DiskFull(
                f"the server has no room for the job's artifacts ({error.strerror}): its disk or its"
                " share of it is full; submit the job again when there is room"
            ) from error
        finally:
            path.unlink(missing_ok=True)

    def add(self, owner: str, data: bytes) -> StoredFile:
        """Store `data`, held by `owner`."""
        with self.incoming(owner) as file:
            file.write(data)
            return file.commit()

    def _copied(self, owner: str, source: Path, sha256: str) -> str | None:
        """Have a copy of what is about to be adopted where it outlives this machine; its name if it is new."""
        if self._far is None:
            return None
        with self._mutex:
            if sha256 in self._owners:
                # Who made it part of the store had copied it, and nobody removes it while it is held.
                self._hold(owner, sha256)
                return None
        return self._far.put(sha256, source)

    def _adopt(
        self, owner: str, source: Path, sha256: str, size: int, copy: str | None
    ) -> StoredFile:
        target = self.path(sha256)
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
            self._hold(owner, sha256)
        self._remove_copies([superfluous])
        return StoredFile(sha256, size, target)

    def _remove_copies(self, names: Iterable[str | None]) -> None:
        some = [name for name in names if name is not None]
        if self._far is not None and some:
            self._far.delete(some)

    def _hold(self, owner: str, sha256: str) -> None:
        self._owners.setdefault(sha256, set()).add(owner)
        self._held.setdefault(owner, set()).add(sha256)

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
        copies = []
        with self._mutex:
            for sha256 in self._held.pop(owner, ()):
                owners = self._owners[sha256]
                owners.discard(owner)
                if not owners:
                    del self._owners[sha256]
                    self.path(sha256).unlink(missing_ok=True)
                    copies.append(self._copies.pop(sha256, None))
        self._remove_copies(copies)

    def close(self) -> None:
        """Give up the folder, and remove the files that need not outlive the process. May be called
        more than once.
        """
        if not self._lock_file.closed:
            if not self.outlives_process:
                with self._mutex:
                    self._owners.clear()
                    self._held.clear()
            self._remove_files()
            self._lock_file.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
