"""The files of a job as the server has them: it reads none, and removes what nothing needs any more."""

from __future__ import annotations

import logging
import queue
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from beam_runner_data.side_inputs.side_index import remove_indexes
from beam_runner_model.threads import start_essential
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.spec import StoreSpec

_CLOSE_SECONDS = 20.0
_LOGGER = logging.getLogger(__name__)


class JobFolder:
    """The files of one job. Methods that remove raise nothing: what stays goes with the job, or by the next server.

    A store that is no folder may keep the caller waiting. So a thread of this object's own asks it, for many files
    at a time.

    Args:
        spec: where the files lie; none of another job does.
        own: a folder for what only the server has; by default, and always if the store is a folder, that folder.

    Attributes:
        spec: where the files lie.
        folder: the folder for what only the server has.
    """

    def __init__(self, spec: StoreSpec, own: Path | None = None) -> None:
        folder = spec.folder or own
        assert folder is not None
        self.spec = spec
        self.folder = folder
        self._in_place = spec.folder is not None
        self._store = spec.open()
        self._work: queue.SimpleQueue[Callable[[], Iterable[str]] | None] = queue.SimpleQueue()
        if not self._in_place:
            self._start()

    def _start(self) -> None:
        self._thread = start_essential(self._run, "garbage", lambda _: self._start())

    def remove(self, names: Iterable[str]) -> None:
        """Removes files that nothing will read again, some time later."""
        if gone := tuple(names):
            self._later(lambda: gone)
        for name in gone:
            remove_indexes(self.folder, name)

    def remove_like(self, pattern: re.Pattern[str], needed: Iterable[str]) -> None:
        """Removes all files of which the whole name is like a pattern, but none that is needed, some time later."""
        kept = set(needed)
        self._later(lambda: [n for n in self._names() if pattern.fullmatch(n) and n not in kept])

    def remove_process(self, folder: str) -> None:
        """Removes what a process that has ended had for itself alone.

        Beside other stores a process has that on its own machine, where the next process removes it.
        """
        shutil.rmtree(self.folder / folder, ignore_errors=True)

    def sweep(self, needed: Iterable[str]) -> None:
        """Removes all that is not needed, before anything of the job runs: what an earlier server has left."""
        kept = set(needed)
        # Before the job goes on: after that there would be files that nobody knows yet.
        self._delete(lambda: [name for name in self._names() if name not in kept])
        # Worker processes, which had the folders, have ended with their server.
        for folder in self.folder.glob("*/") if self._in_place else (self.folder,):
            shutil.rmtree(folder, ignore_errors=True)

    def make_room(self) -> None:
        """Removes all files if they are on a disk that the server may share with them."""
        if self._in_place:
            self.remove_all()

    def remove_all(self) -> None:
        """Removes everything; returns when that is done, or takes too long."""
        if not self._in_place:
            self._work.put(self._names)
            self._work.put(None)
            self._thread.join(_CLOSE_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _names(self) -> Iterable[str]:
        """Returns the names of the files that bundles write; processes have others in folders of their own."""
        if self._in_place:
            return [path.name for path in self.folder.glob("*") if not path.is_dir()]
        return self._store.names()

    def _later(self, find: Callable[[], Iterable[str]]) -> None:
        if self._in_place:
            self._delete(find)
        else:
            self._work.put(find)

    def _run(self) -> None:
        while (find := self._work.get()) is not None:
            self._delete(find)

    def _delete(self, find: Callable[[], Iterable[str]]) -> None:
        try:
            gone = list(find())
            if gone:
                self._store.delete(gone)
        except StoreError as error:
            _LOGGER.warning("garbage stays for now: %s", error)
