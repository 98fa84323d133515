"""Copies of a store's files in a folder of one process, made when a bundle needs them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from beam_spark_executor.stores.ports import DataStore, NoPlaceError, StoreError

_AT_ONCE = 8
_MOST_SHARE = 0.05


class LocalCopies:
    """What a process has of a job's files (`beam_spark_executor.bundles.durability.FileKeeper`).

    Files have the same names here and there, and never change, so a copy is good for as long as it is here. Those
    that were not needed for longest go when all together take too much of the disk.

    Args:
        store: where the job's files lie.
        folder: of this process alone.
        most_bytes: how much may lie here that no bundle needs; a twentieth of what the disk has left by default.
    """

    def __init__(self, store: DataStore, folder: Path, most_bytes: int | None = None) -> None:
        self._store = store
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._most = (
            int(shutil.disk_usage(folder).free * _MOST_SHARE) if most_bytes is None else most_bytes
        )
        self._sizes: dict[str, int] = {}
        self._needed: set[str] = set()
        self._held: set[str] = set()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_AT_ONCE, "files")

    def need(self, names: Iterable[str]) -> None:
        """Fetches what is not here; see `FileKeeper.need`.

        Raises:
            OSError: the store has lost one, or does not answer, or the disk is full.
        """
        with self._lock:
            self._needed = set(names)
            self._have(self._needed)

    def hold(self, names: Collection[str]) -> None:
        """Fetches what is not here; see `FileKeeper.hold`.

        Raises:
            OSError: as for `need`.
        """
        with self._lock:
            self._held = set(names)
            self._have(self._held)

    def keep(self, names: Sequence[str], *, hold: bool = False) -> None:
        """Puts files into the store; see `FileKeeper.keep`.

        Raises:
            OSError: the store does not take one.
            NoPlaceError: there is none.
        """
        with self._lock:
            self._sizes.update(zip(names, self._all(self._put, names), strict=True))
            (self._held if hold else self._needed).update(names)
            self._make_room()

    def _have(self, names: Set[str]) -> None:
        for name in names & self._sizes.keys():
            self._sizes[name] = self._sizes.pop(name)
        missing = sorted(names - self._sizes.keys())
        self._sizes.update(zip(missing, self._all(self._fetch, missing), strict=True))
        self._make_room()

    def _all(self, work: Callable[[str], int], names: Sequence[str]) -> Iterable[int]:
        return map(work, names) if len(names) == 1 else self._pool.map(work, names)

    def _fetch(self, name: str) -> int:
        path = self._folder / name
        if path.exists():
            return path.stat().st_size  # of this process, which has not told of it yet
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return self._store.fetch(name, path)
        except StoreError as error:
            raise OSError(str(error)) from error

    def _put(self, name: str) -> int:
        path = self._folder / name
        try:
            self._store.put(name, path)
        except NoPlaceError:
            raise
        except StoreError as error:
            raise OSError(str(error)) from error
        return path.stat().st_size

    def _make_room(self) -> None:
        total = sum(self._sizes.values())
        wanted = self._needed | self._held
        for name in [name for name in self._sizes if name not in wanted]:
            if total <= self._most:
                return
            # Whoever has it open goes on reading.
            (self._folder / name).unlink(missing_ok=True)
            total -= self._sizes.pop(name)
