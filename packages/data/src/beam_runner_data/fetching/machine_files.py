"""The copies of a store's files on one machine, fetched once for all processes that work for the same job."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import xxhash
from beam_runner_storage.stores.ports import FileStore

from beam_runner_data.rows.partial_file import PartialFile
from beam_runner_data.rows.refs import SIDE
from beam_runner_data.side_inputs.side_index import remove_indexes

_MOST_SHARE = 0.1
_LOOKS = 16
"""Number of cleanups per budget: a cleanup of old copies runs whenever 1/16 of the byte limit was fetched."""
_LOCKS = 64
_BLOCK = 512


class MachineFileCache:
    """Files of a job in a folder that its processes on this machine share; thread-safe.

    Each process has hard links to these files. So an unused file has a link count of 1. If the
    unused files exceed the maximum, the least recently used files are removed.

    Args:
        store: store of the job's files.
        folder: shared folder on a file system with locks and hard links.
        most_bytes: maximum bytes of unused files; a tenth of the free disk space by default.
        url: URL of the store, for messages.

    Attributes:
        side: folder of the side-input indexes; the first process that needs an index builds it.
    """

    def __init__(
        self, store: FileStore, folder: Path, most_bytes: int | None = None, url: str = ""
    ) -> None:
        self._store = store
        self.url = url
        self._files = folder / "files"
        self._locks = folder / "locks"
        self._folder = folder
        self.side = folder / SIDE
        for made in (self._files, self._locks, self.side):
            made.mkdir(exist_ok=True)
        free = shutil.disk_usage(folder).free
        self._most = int(free * _MOST_SHARE) if most_bytes is None else most_bytes
        self._came = 0
        self._looking = threading.Lock()

    def link_file(self, name: str, rows: Collection[int] | None, path: Path) -> None:
        """Fetches the missing parts of a file, and then links the file to another path.

        Concurrent calls for the same file wait for each other.

        Args:
            rows: required rows of a row file; None for the complete file.
            path: target path on the same file system; an existing file is replaced.

        Raises:
            StoreError: The store doesn't return the file.
            OSError: The disk is full.
        """
        here = self._get_local_path(name)
        with self._hold_file_lock(name):
            file = PartialFile(self._store, name, here)
            came = file.fetch_all() if rows is None else file.fetch_rows(rows)
            os.utime(here)
            _replace_with_link(here, path)
        self._remove_unused_files(came)

    def upload_file(self, name: str, path: Path) -> None:
        """Uploads a file to the store, and adds it to the shared folder.

        Raises:
            StoreError: The store rejects the file.
        """
        self._store.put_file(name, path)
        with self._hold_file_lock(name):
            _replace_with_link(path, self._get_local_path(name))
        self._remove_unused_files(path.stat().st_size)

    def _get_local_path(self, name: str) -> Path:
        here = self._files / name
        here.parent.mkdir(parents=True, exist_ok=True)
        return here

    @contextlib.contextmanager
    def _hold_file_lock(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """Holds the file lock for a name. The operating system releases it when the process exits.

        Several names share a lock file, because the lock is chosen by a hash of the name.

        Raises:
            BlockingIOError: Another process or thread holds the lock, and ``wait`` is False.
        """
        number = xxhash.xxh3_64_intdigest(name.encode()) % _LOCKS
        with (self._locks / str(number)).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def _remove_unused_files(self, came: int) -> None:
        with self._looking:
            self._came += came
            if self._came * _LOOKS < self._most or not came:
                return
            self._came = 0
            total = 0
            unused: list[tuple[float, str]] = []
            for path in _list_files(self._files):
                with contextlib.suppress(
                    FileNotFoundError
                ):  # another process can remove files at the same time
                    found = path.stat()
                    if found.st_nlink == 1:
                        total += found.st_blocks * _BLOCK
                        unused.append((found.st_mtime, str(path.relative_to(self._files))))
            for _, name in sorted(unused):
                if total <= self._most:
                    return
                total -= self._remove_file(name)

    def _remove_file(self, name: str) -> int:
        """Removes an unused file and its side-input indexes, and returns the number of freed bytes."""
        here = self._files / name
        with (
            contextlib.suppress(BlockingIOError, FileNotFoundError),
            self._hold_file_lock(name, wait=False),
        ):
            found = here.stat()
            if found.st_nlink == 1:
                PartialFile(self._store, name, here).remove_file()
                remove_indexes(self._folder, name)
                return found.st_blocks * _BLOCK
        return 0


def _list_files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names if not name.startswith("."))


def _replace_with_link(source: Path, target: Path) -> None:
    """Replaces ``target`` with a hard link to ``source``, atomically."""
    part = target.with_name(f".{target.name}.{threading.get_ident()}.link")
    part.unlink(missing_ok=True)
    os.link(source, part)
    # If `part` and `target` are already links to the same file, `os.replace` does nothing, so
    # remove `part` afterwards.
    os.replace(part, target)
    part.unlink(missing_ok=True)
