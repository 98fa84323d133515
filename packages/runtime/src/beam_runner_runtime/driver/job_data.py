"""A job's data as the server sees it: it reads none, and removes what nobody needs any more."""

from __future__ import annotations

import logging
import queue
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from beam_runner_data.side_inputs.side_index import remove_with_indexes
from beam_runner_model.threads import start_essential
from beam_runner_storage.stores.ports import DataStore, StoreError

_CLOSE_SECONDS = 20.0
_LOGGER = logging.getLogger(__name__)


class JobData(Protocol):
    """The files of one job. What is removed is gone some time later; nothing is raised."""

    def remove(self, names: Iterable[str]) -> None:
        """Removes files that nothing will read again."""

    def remove_like(self, pattern: re.Pattern[str], needed: Iterable[str]) -> None:
        """Removes all files of which the whole name is like a pattern, but none that is needed."""

    def remove_process(self, folder: str) -> None:
        """Removes what a process that has ended had for itself alone."""

    def sweep(self, needed: Iterable[str]) -> None:
        """Removes all that is not needed, before anything of the job runs: what an earlier server has left."""

    def remove_all(self) -> None:
        """Removes everything; returns when that is done, or takes too long."""


class SharedJobData:
    """In a folder (`JobData`)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            with _garbage_may_stay():
                remove_with_indexes(self._folder, name)

    def remove_like(self, pattern: re.Pattern[str], needed: Iterable[str]) -> None:
        kept = set(needed)
        with _garbage_may_stay():
            for path in self._folder.iterdir() if self._folder.is_dir() else ():
                if pattern.fullmatch(path.name) and path.name not in kept and path.is_file():
                    path.unlink(missing_ok=True)

    def remove_process(self, folder: str) -> None:
        shutil.rmtree(self._folder / folder, ignore_errors=True)

    def sweep(self, needed: Iterable[str]) -> None:
        kept = set(needed)
        with _garbage_may_stay():
            for path in self._folder.iterdir() if self._folder.is_dir() else ():
                if path.is_dir():
                    # Of a worker process, which has ended with its server.
                    shutil.rmtree(path, ignore_errors=True)
                elif path.name not in kept:
                    path.unlink(missing_ok=True)

    def remove_all(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class StoredJobData:
    """In a store (`JobData`): by a thread of its own, for it waits for the store; many at a time.

    Args:
        store: has the job's files and no others.
    """

    def __init__(self, store: DataStore) -> None:
        self._store = store
        self._work: queue.SimpleQueue[Callable[[], Iterable[str]] | None] = queue.SimpleQueue()
        self._start()

    def _start(self) -> None:
        self._thread = start_essential(self._run, "garbage", lambda _: self._start())

    def remove(self, names: Iterable[str]) -> None:
        if gone := tuple(names):
            self._work.put(lambda: gone)

    def remove_like(self, pattern: re.Pattern[str], needed: Iterable[str]) -> None:
        kept = set(needed)
        self._work.put(
            lambda: [n for n in self._store.names() if pattern.fullmatch(n) and n not in kept]
        )

    def remove_process(self, folder: str) -> None:
        """Each process has that on its own machine, and the next one there removes it."""

    def sweep(self, needed: Iterable[str]) -> None:
        kept = set(needed)
        # Before the job goes on: after that there would be files that nobody knows yet.
        self._delete(lambda: [name for name in self._store.names() if name not in kept])

    def remove_all(self) -> None:
        self._work.put(lambda: list(self._store.names()))
        self._work.put(None)
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while (find := self._work.get()) is not None:
            self._delete(find)

    def _delete(self, find: Callable[[], Iterable[str]]) -> None:
        try:
            gone = list(find())
            if gone:
                self._store.delete(gone)
        except StoreError as error:
            # What stays is removed with the job, or when the next server starts.
            _LOGGER.warning("garbage stays for now: %s", error)


@contextmanager
def _garbage_may_stay() -> Iterator[None]:
    """Logs an error of the disk: the file is removed with the job, or by the next server."""
    try:
        yield
    except OSError as error:
        _LOGGER.warning("garbage stays for now: %s", error)
