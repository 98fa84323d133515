"""Files of a store at hand in a folder of one process, when a bundle needs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

from beam_spark_executor.data.machine_files import MachineFiles
from beam_spark_executor.data.refs import FileRows, Segment
from beam_spark_executor.data.side_index import SIDE
from beam_spark_executor.stores.ports import NoPlaceError, StoreError

T = TypeVar("T")

_AT_ONCE = 8
_SPARE_BYTES = 64 << 20
"""What is needed again and again, as state is, is not looked for each time."""

_Rows: TypeAlias = Collection[int] | None
"""Rows of a file that are to be at hand; None for all of it."""


class LocalCopies:
    """What a process has of a job's files (`beam_spark_executor.bundles.durability.FileKeeper`).

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
        self._rows: dict[str, _Rows] = {}
        self._sizes: dict[str, int] = {}
        self._needed: set[str] = set()
        self._held: set[str] = set()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, "files")

    def need(self, refs: Iterable[FileRows | Segment]) -> None:
        """Fetches what is not here; see `FileKeeper.need`.

        Raises:
            OSError: the store has lost one, or does not answer, or the disk is full.
        """
        wanted: dict[str, set[int] | None] = {}
        for ref in refs:
            if isinstance(ref, Segment):
                wanted[ref.path] = None
            elif (rows := wanted.setdefault(ref.path, set())) is not None:
                rows.update(ref.rows)
        with self._lock:
            self._needed = set(wanted)
            self._have(wanted)

    def hold(self, names: Collection[str]) -> None:
        """Fetches what is not here; see `FileKeeper.hold`.

        Raises:
            OSError: as for `need`.
        """
        with self._lock:
            self._held = set(names)
            self._have(dict.fromkeys(names))

    def keep(self, names: Sequence[str], *, hold: bool = False) -> None:
        """Puts files into the store; see `FileKeeper.keep`.

        Raises:
            OSError: the store does not take one.
            NoPlaceError: there is none.
        """
        with self._lock:
            self._all(self._put, names)
            (self._held if hold else self._needed).update(names)
            self._make_room()

    def _have(self, wanted: Mapping[str, _Rows]) -> None:
        for name in wanted.keys() & self._sizes.keys():
            self._sizes[name] = self._sizes.pop(name)
        missing = [(name, rows) for name, rows in wanted.items() if not self._is_here(name, rows)]
        self._all(self._fetch, sorted(missing, key=lambda file: file[0]))
        self._make_room()

    def _is_here(self, name: str, rows: _Rows) -> bool:
        if name not in self._rows:
            return False
        here = self._rows[name]
        return here is None or (rows is not None and set(here).issuperset(rows))

    def _all(self, work: Callable[[T], None], files: Sequence[T]) -> None:
        for _ in map(work, files) if len(files) == 1 else self._pool.map(work, files):
            pass

    def _fetch(self, file: tuple[str, _Rows]) -> None:
        name, rows = file
        path = self._folder / name
        if name not in self._rows and path.exists():
            return  # of this process, which has not told of it yet
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._machine.have(name, rows, path)
        except StoreError as error:
            raise OSError(str(error)) from error
        here = self._rows.get(name, ())
        self._know(name, None if here is None or rows is None else frozenset(here).union(rows))

    def _put(self, name: str) -> None:
        try:
            self._machine.put(name, self._folder / name)
        except NoPlaceError:
            raise
        except StoreError as error:
            raise OSError(str(error)) from error
        self._know(name, None)

    def _know(self, name: str, rows: _Rows) -> None:
        self._rows[name] = rows
        self._sizes[name] = (self._folder / name).stat().st_size

    def _make_room(self) -> None:
        total = sum(self._sizes.values())
        wanted = self._needed | self._held
        for name in [name for name in self._sizes if name not in wanted]:
            if total <= self._most:
                return
            # Whoever has it open goes on reading.
            (self._folder / name).unlink(missing_ok=True)
            total -= self._sizes.pop(name)
            del self._rows[name]
