"""A store's files on one machine: fetched once for all processes there that work for the same job."""

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
"""What is here is looked through each time that one part in so many of what may be here has come."""
_LOCKS = 64
_BLOCK = 512


class MachineFiles:
    """The files of a job in a folder that its processes on this machine share. Thread-safe.

    A process has files by names of its own, which are links to those here. So the ones that no process has
    any more are known by having one name, and those that were not asked for for longest go when all together
    take too much of the disk.

    Args:
        store: where the job's files lie.
        folder: of the processes, on a file system in which files can be locked and linked.
        most_bytes: how much may lie here that no process has; a tenth of what the disk has left by default.
        url: of the store, for messages.

    Attributes:
        side: the folder of indexes of side inputs, each of which is built by whoever needs it first.
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

    def have(self, name: str, rows: Collection[int] | None, path: Path) -> None:
        """Has a file at another path, too, fetching what of it is not here.

        Who wants the same at the same time waits.

        Args:
            name: of the file in the store.
            rows: those that must be there, if it is a file of rows; None for all of it.
            path: on the same file system; what is there is replaced.

        Raises:
            StoreError: the store does not give it.
            OSError: the disk is full.
        """
        here = self._place(name)
        with self._locked(name):
            file = PartialFile(self._store, name, here)
            came = file.have_all() if rows is None else file.have(rows)
            os.utime(here)
            _link(here, path)
        self._make_room(came)

    def put(self, name: str, path: Path) -> None:
        """Puts a file into the store, and has it here, too.

        Raises:
            StoreError: the store does not take it.
        """
        self._store.put(name, path)
        with self._locked(name):
            _link(path, self._place(name))
        self._make_room(path.stat().st_size)

    def _place(self, name: str) -> Path:
        here = self._files / name
        here.parent.mkdir(parents=True, exist_ok=True)
        return here

    @contextlib.contextmanager
    def _locked(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """Holds the lock of a name, which it shares with others; it goes with this process.

        Raises:
            BlockingIOError: somebody else holds it, and it is not waited for.
        """
        number = xxhash.xxh3_64_intdigest(name.encode()) % _LOCKS
        with (self._locks / str(number)).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def _make_room(self, came: int) -> None:
        with self._looking:
            self._came += came
            if self._came * _LOOKS < self._most or not came:
                return
            self._came = 0
            total = 0
            unused: list[tuple[float, str]] = []
            for path in _files_in(self._files):
                with contextlib.suppress(FileNotFoundError):  # another process makes room, too
                    found = path.stat()
                    if found.st_nlink == 1:
                        total += found.st_blocks * _BLOCK
                        unused.append((found.st_mtime, str(path.relative_to(self._files))))
            for _, name in sorted(unused):
                if total <= self._most:
                    return
                total -= self._remove(name)

    def _remove(self, name: str) -> int:
        """Removes a file that no process has, and the indexes that begin with it; how many bytes that were."""
        here = self._files / name
        with (
            contextlib.suppress(BlockingIOError, FileNotFoundError),
            self._locked(name, wait=False),
        ):
            found = here.stat()
            if found.st_nlink == 1:
                PartialFile(self._store, name, here).remove()
                remove_indexes(self._folder, name)
                return found.st_blocks * _BLOCK
        return 0


def _files_in(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names if not name.startswith("."))


def _link(source: Path, target: Path) -> None:
    """Gives a file another name, in place of what has it; nobody sees that there is none."""
    part = target.with_name(f".{target.name}.{threading.get_ident()}.link")
    part.unlink(missing_ok=True)
    os.link(source, part)
    # Two names of one file are left as they are, both.
    os.replace(part, target)
    part.unlink(missing_ok=True)
