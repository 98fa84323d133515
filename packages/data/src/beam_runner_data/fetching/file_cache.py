"""The local cache of a job's files in one process, for every kind of store."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import xxhash
from beam_runner_model.threads import run_concurrently
from beam_runner_storage.durable.folders import sync_files
from beam_runner_storage.stores.ports import MissingFileError, NoStoreError, StoreError
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_storage.temporary import SharedTemporaryFolder, TemporaryFolder
from beam_runner_storage.unavailable import ExternalSystemUnavailable, convert_disk_errors

from beam_runner_data.fetching.access import get_local_files_folder
from beam_runner_data.fetching.machine_files import MachineFileCache
from beam_runner_data.rows.refs import SIDE, FileRows, Segment

_AT_ONCE = 8
_SPARE_BYTES = 64 << 20
"""Default size (bytes) of unused copies in the cache, so that frequently used files, such as state,
aren't fetched each time.
"""

_Rows: TypeAlias = frozenset[int] | None
"""Cached rows of a file; None for the complete file."""


class _CachedCopy(NamedTuple):
    """Local copy of a file: the cached rows, and the size of the complete file in bytes."""

    rows: _Rows
    size: int


class FileCache:
    """Folder in which bundles read and write the files of their job; thread-safe.

    Without a `machine`, the folder contains the original files, and all machines share it, so
    nothing is copied. With a `machine`, the folder belongs to this process and contains copies.
    Files have the same names in the folder and in the store. A file never changes, so its copy
    stays valid.

    Args:
        folder: the folder. With a `machine`, the folder is on the same file system as the machine's
            files, and the cache uses the machine's indexes of side inputs.
        machine: cache of files that all processes on this machine share, or None.
        durable: whether `persist_files` waits for the disk, if `machine` is None.
        spare_bytes: maximum bytes of copies that no bundle needs.

    Attributes:
        folder: the folder.
        in_extents: whether the cache fetches single rows of a file instead of the complete file.
    """

    def __init__(
        self,
        folder: Path,
        machine: MachineFileCache | None = None,
        *,
        durable: bool = False,
        spare_bytes: int = _SPARE_BYTES,
    ) -> None:
        self.folder = folder
        self.in_extents = False
        self._machine = machine
        if machine is not None:
            (folder / SIDE).symlink_to(machine.side, target_is_directory=True)
        self._durable = durable
        self._most = spare_bytes
        self._here: dict[str, _CachedCopy] = {}
        self._needed: set[str] = set()
        self._held: set[str] = set()
        self._lock = threading.Lock()
        self._closing: list[Callable[[], None]] = []

    @classmethod
    def open(cls, spec: StoreSpec) -> FileCache:
        """Returns the file cache of this process for a job's store.

        Raises:
            StoreError: This machine can't use the store.
            OSError: The disk of this machine is full.
        """
        if spec.folder is not None:
            return cls(spec.folder, durable=spec.durable)
        # Each job has its own location in a store. Without a store, processes share no files, so
        # the name is random.
        name = spec.url if spec.accepts_files else secrets.token_hex()
        digest = xxhash.xxh3_128_hexdigest(name.encode())
        common = SharedTemporaryFolder("store-", digest, get_local_files_folder(spec))
        try:
            own = TemporaryFolder("data-", common.path)
            cache = cls(own.path, MachineFileCache(spec.open_store(), common.path, url=spec.url))
        except BaseException:
            common.release_folder()
            raise
        cache.in_extents = spec.accepts_files
        cache._closing = [common.release_folder, own.remove_folder]
        return cache

    def close(self) -> None:
        """Removes the folder of this process, but not a folder that machines share."""
        while self._closing:
            self._closing.pop()()

    def fetch_referenced_files(self, refs: Iterable[FileRows | Segment]) -> None:
        """Fetches the files that contain rows and segments, and retains them until the next call.

        The method runs for every bundle. So it inspects the references only if files must be copied
        from the store.

        Raises:
            OSError: The store has lost a file.
            ExternalSystemUnavailable: The store doesn't respond, or the disk is full.
        """
        if self._machine is None:
            return
        wanted: dict[str, _Rows] = {}
        rows: dict[str, set[int]] = {}
        for ref in refs:
            if isinstance(ref, Segment):
                wanted[ref.path] = None
            else:
                rows.setdefault(ref.path, set()).update(ref.rows)
        wanted.update((name, frozenset(some)) for name, some in rows.items())
        with self._lock:
            self._needed = set(wanted)
            self._fetch_missing_files(self._machine, wanted)

    def fetch_files(self, names: Collection[str]) -> None:
        """Fetches files, and retains them until the next call.

        Raises:
            OSError: The store has lost a file.
            ExternalSystemUnavailable: The store doesn't respond, or the disk is full.
        """
        if self._machine is None:
            return
        with self._lock:
            self._held = set(names)
            self._fetch_missing_files(self._machine, dict.fromkeys(names))

    def persist_files(self, names: Sequence[str], *, hold: bool = False) -> None:
        """Persists new files; on return they are durable and visible to other machines.

        Args:
            names: paths relative to the folder.
            hold: whether the files are also retained, in addition to the currently held files.

        Raises:
            OSError: A file can't be persisted.
            ExternalSystemUnavailable: The store rejects a file, or the disk is full.
            NoStoreError: The job has no store.
        """
        machine = self._machine
        if machine is None:
            if self._durable:
                with convert_disk_errors(self.folder):
                    sync_files([self.folder / name for name in names])
            return
        with self._lock:
            run_concurrently(
                lambda name: self._upload_file(machine, name), names, _AT_ONCE, "files"
            )
            (self._held if hold else self._needed).update(names)
            self._remove_unneeded_copies()

    def _fetch_missing_files(self, machine: MachineFileCache, wanted: Mapping[str, _Rows]) -> None:
        for name in wanted.keys() & self._here.keys():
            self._here[name] = self._here.pop(name)
        missing = [file for file in wanted.items() if not self._is_cached(*file)]
        run_concurrently(lambda file: self._fetch_file(machine, *file), missing, _AT_ONCE, "files")
        self._remove_unneeded_copies()

    def _is_cached(self, name: str, rows: _Rows) -> bool:
        copy = self._here.get(name)
        if copy is None:
            return False
        return copy.rows is None or (rows is not None and rows <= copy.rows)

    def _fetch_file(self, machine: MachineFileCache, name: str, rows: _Rows) -> None:
        path = self.folder / name
        before = self._here.get(name)
        if before is None and path.exists():
            return  # this process wrote the file and hasn't persisted the file yet
        with self._convert_store_errors(machine):
            path.parent.mkdir(parents=True, exist_ok=True)
            machine.link_file(name, rows, path)
        if before is not None and rows is not None and before.rows is not None:
            rows |= before.rows
        self._record_copy(name, rows)

    def _upload_file(self, machine: MachineFileCache, name: str) -> None:
        with self._convert_store_errors(machine):
            machine.upload_file(name, self.folder / name)
        self._record_copy(name, None)

    @contextmanager
    def _convert_store_errors(self, machine: MachineFileCache) -> Iterator[None]:
        """Converts errors of the store and of the disk to the errors that `persist_files` documents."""
        try:
            with convert_disk_errors(self.folder):
                yield
        except NoStoreError:
            raise
        except MissingFileError as error:
            raise OSError(str(error)) from error
        except StoreError as error:
            raise ExternalSystemUnavailable(
                f"the data store at {machine.url}", str(error)
            ) from error

    def _record_copy(self, name: str, rows: _Rows) -> None:
        self._here[name] = _CachedCopy(rows, (self.folder / name).stat().st_size)

    def _remove_unneeded_copies(self) -> None:
        total = sum(copy.size for copy in self._here.values())
        wanted = self._needed | self._held
        for name in [name for name in self._here if name not in wanted]:
            if total <= self._most:
                return
            # On POSIX, a reader that has the file open can continue to read it after its removal.
            (self.folder / name).unlink(missing_ok=True)
            total -= self._here.pop(name).size
