"""Files of a store at hand in a folder of one process, when a bundle needs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from beam_runner_model.threads import run_together
from beam_runner_storage.stores.ports import MissingFileError, NoPlaceError, StoreError
from beam_runner_storage.unavailable import NeighbourUnavailable, disk_of

from beam_runner_data.fetching.machine_files import MachineFiles
from beam_runner_data.rows.refs import SIDE, FileRows, Segment

T = TypeVar("T")

_AT_ONCE = 8
_SPARE_BYTES = 64 << 20
"""What is needed again and again, as state is, is not looked for each time."""

_Rows: TypeAlias = frozenset[int] | None
"""Rows of a file; None for all of it."""


class _Copy(NamedTuple):
    """What of a file is here, and how long the whole file is in bytes."""

    rows: _Rows
    size: int


class LocalCopies:
    """What a process has of a job's files (`beam_runner_runtime.bundles.durability.FileKeeper`).

    Files have the same names here and there, and never change, so what is here is good for as long as it is.

    Args:
        machine: the files of all processes on this machine.
        folder: of this process alone, on the same file system; indexes of side inputs are shared.
        spare_bytes: how much may stay that no bundle needs.
    """

    def __init__(
        self, machine: MachineFiles, folder: Path, spare_bytes: int = _SPARE_BYTES
    ) -> None:
        self._machine = machine
        self._folder = folder
        (folder / SIDE).symlink_to(machine.side, target_is_directory=True)
        self._most = spare_bytes
        self._here: dict[str, _Copy] = {}
        self._needed: set[str] = set()
        self._held: set[str] = set()
        self._lock = threading.Lock()

    def need(self, refs: Iterable[FileRows | Segment]) -> None:
        """Fetches what is not here; see `FileKeeper.need`.

        Raises:
            OSError: the store has lost one.
            NeighbourUnavailable: the store does not answer, or the disk is full.
        """
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
            self._have(wanted)

    def hold(self, names: Collection[str]) -> None:
        """Fetches what is not here; see `FileKeeper.hold`.

        Raises:
            OSError, NeighbourUnavailable: as for `need`.
        """
        with self._lock:
            self._held = set(names)
            self._have(dict.fromkeys(names))

    def keep(self, names: Sequence[str], *, hold: bool = False) -> None:
        """Puts files into the store; see `FileKeeper.keep`.

        Raises:
            NeighbourUnavailable: the store does not take one, or the disk is full.
            NoPlaceError: there is none.
        """
        with self._lock:
            self._all(self._put, names)
            (self._held if hold else self._needed).update(names)
            self._make_room()

    def _have(self, wanted: Mapping[str, _Rows]) -> None:
        for name in wanted.keys() & self._here.keys():
            self._here[name] = self._here.pop(name)
        self._all(self._fetch, [file for file in wanted.items() if not self._is_here(*file)])
        self._make_room()

    def _is_here(self, name: str, rows: _Rows) -> bool:
        copy = self._here.get(name)
        if copy is None:
            return False
        return copy.rows is None or (rows is not None and rows <= copy.rows)

    def _all(self, work: Callable[[T], None], files: Sequence[T]) -> None:
        run_together(work, files, _AT_ONCE, "files")

    def _fetch(self, file: tuple[str, _Rows]) -> None:
        name, rows = file
        path = self._folder / name
        before = self._here.get(name)
        if before is None and path.exists():
            return  # of this process, which has not told of it yet
        try:
            with disk_of(self._folder):
                path.parent.mkdir(parents=True, exist_ok=True)
                self._machine.have(name, rows, path)
        except MissingFileError as error:
            raise OSError(str(error)) from error
        except StoreError as error:
            raise self._unavailable(error) from error
        if before is not None and rows is not None and before.rows is not None:
            rows |= before.rows
        self._know(name, rows)

    def _put(self, name: str) -> None:
        try:
            with disk_of(self._folder):
                self._machine.put(name, self._folder / name)
        except NoPlaceError:
            raise
        except StoreError as error:
            raise self._unavailable(error) from error
        self._know(name, None)

    def _unavailable(self, error: StoreError) -> NeighbourUnavailable:
        return NeighbourUnavailable(f"the data store at {self._machine.url}", str(error))

    def _know(self, name: str, rows: _Rows) -> None:
        self._here[name] = _Copy(rows, (self._folder / name).stat().st_size)

    def _make_room(self) -> None:
        total = sum(copy.size for copy in self._here.values())
        wanted = self._needed | self._held
        for name in [name for name in self._here if name not in wanted]:
            if total <= self._most:
                return
            # Whoever has it open goes on reading.
            (self._folder / name).unlink(missing_ok=True)
            total -= self._here.pop(name).size
