"""The files of a job as one process has them, wherever they lie."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import xxhash
from beam_runner_model.threads import run_together
from beam_runner_storage.durable.folders import sync_files
from beam_runner_storage.stores.ports import MissingFileError, NoPlaceError, StoreError
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_storage.temporary import CommonFolder, TemporaryFolder
from beam_runner_storage.unavailable import NeighbourUnavailable, disk_of

from beam_runner_data.fetching.access import folder_for_files
from beam_runner_data.fetching.machine_files import MachineFiles
from beam_runner_data.rows.refs import SIDE, FileRows, Segment

_AT_ONCE = 8
_SPARE_BYTES = 64 << 20
"""What is needed again and again, as state is, is not looked for each time."""

_Rows: TypeAlias = frozenset[int] | None
"""Rows of a file; None for all of it."""


class _Copy(NamedTuple):
    """What of a file is here, and how long the whole file is in bytes."""

    rows: _Rows
    size: int


class FileCache:
    """A folder in which bundles read and write the files of their job. Thread-safe.

    Without a `machine` the files lie in this very folder, which all machines share: nothing is copied. Otherwise
    the folder is of this process alone, and has copies. Files have the same names here and in the store, and never
    change, so a copy stays good.

    Args:
        folder: the folder; with a machine it is on the same file system, and indexes of side inputs are shared.
        machine: the files of all processes on this machine.
        durable: whether `keep` waits for the disk, if there is no machine.
        spare_bytes: how many bytes of copies may stay that no bundle needs.

    Attributes:
        folder: the folder.
        in_extents: whether rows of a file are fetched, and not all of it.
    """

    def __init__(
        self,
        folder: Path,
        machine: MachineFiles | None = None,
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
        self._here: dict[str, _Copy] = {}
        self._needed: set[str] = set()
        self._held: set[str] = set()
        self._lock = threading.Lock()
        self._closing: list[Callable[[], None]] = []

    @classmethod
    def open(cls, spec: StoreSpec) -> FileCache:
        """Returns the files of the job whose store this is, in this process.

        Raises:
            StoreError: the store can't be used here.
            OSError: there is no place on this machine's disk.
        """
        if spec.folder is not None:
            return cls(spec.folder, durable=spec.durable)
        # A place for a job's files is no other job's; where there is none, nothing is had in common.
        name = spec.url if spec.keeps else secrets.token_hex()
        digest = xxhash.xxh3_128_hexdigest(name.encode())
        common = CommonFolder("store-", digest, folder_for_files(spec))
        try:
            own = TemporaryFolder("data-", common.path)
            cache = cls(own.path, MachineFiles(spec.open(), common.path, url=spec.url))
        except BaseException:
            common.leave()
            raise
        cache.in_extents = spec.keeps
        cache._closing = [common.leave, own.remove]
        return cache

    def close(self) -> None:
        """Removes what is this process's alone."""
        while self._closing:
            self._closing.pop()()

    def need(self, refs: Iterable[FileRows | Segment]) -> None:
        """Has rows and segments at hand until the next ones are needed.

        It is called for every bundle, and goes through the references only where there is something to do.

        Raises:
            OSError: the store has lost one.
            NeighbourUnavailable: the store does not answer, or the disk is full.
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
            self._have(self._machine, wanted)

    def hold(self, names: Collection[str]) -> None:
        """Has files at hand until others are held.

        Raises:
            OSError, NeighbourUnavailable: as for `need`.
        """
        if self._machine is None:
            return
        with self._lock:
            self._held = set(names)
            self._have(self._machine, dict.fromkeys(names))

    def keep(self, names: Sequence[str], *, hold: bool = False) -> None:
        """Returns once new files survive what they must survive, and others can have them.

        Args:
            names: relative to the folder.
            hold: whether they are held, too, beside what is.

        Raises:
            OSError: a file can't be kept.
            NeighbourUnavailable: the store does not take one, or the disk is full.
            NoPlaceError: there is no store.
        """
        machine = self._machine
        if machine is None:
            if self._durable:
                with disk_of(self.folder):
                    sync_files([self.folder / name for name in names])
            return
        with self._lock:
            run_together(lambda name: self._put(machine, name), names, _AT_ONCE, "files")
            (self._held if hold else self._needed).update(names)
            self._make_room()

    def _have(self, machine: MachineFiles, wanted: Mapping[str, _Rows]) -> None:
        for name in wanted.keys() & self._here.keys():
            self._here[name] = self._here.pop(name)
        missing = [file for file in wanted.items() if not self._is_here(*file)]
        run_together(lambda file: self._fetch(machine, *file), missing, _AT_ONCE, "files")
        self._make_room()

    def _is_here(self, name: str, rows: _Rows) -> bool:
        copy = self._here.get(name)
        if copy is None:
            return False
        return copy.rows is None or (rows is not None and rows <= copy.rows)

    def _fetch(self, machine: MachineFiles, name: str, rows: _Rows) -> None:
        path = self.folder / name
        before = self._here.get(name)
        if before is None and path.exists():
            return  # of this process, which has not told of it yet
        with self._reaching(machine):
            path.parent.mkdir(parents=True, exist_ok=True)
            machine.have(name, rows, path)
        if before is not None and rows is not None and before.rows is not None:
            rows |= before.rows
        self._know(name, rows)

    def _put(self, machine: MachineFiles, name: str) -> None:
        with self._reaching(machine):
            machine.put(name, self.folder / name)
        self._know(name, None)

    @contextmanager
    def _reaching(self, machine: MachineFiles) -> Iterator[None]:
        """Raises errors of the store and of the disk as `need` and `keep` do."""
        try:
            with disk_of(self.folder):
                yield
        except NoPlaceError:
            raise
        except MissingFileError as error:
            raise OSError(str(error)) from error
        except StoreError as error:
            raise NeighbourUnavailable(f"the data store at {machine.url}", str(error)) from error

    def _know(self, name: str, rows: _Rows) -> None:
        self._here[name] = _Copy(rows, (self.folder / name).stat().st_size)

    def _make_room(self) -> None:
        total = sum(copy.size for copy in self._here.values())
        wanted = self._needed | self._held
        for name in [name for name in self._here if name not in wanted]:
            if total <= self._most:
                return
            # Whoever has it open goes on reading.
            (self.folder / name).unlink(missing_ok=True)
            total -= self._here.pop(name).size
