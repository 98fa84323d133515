"""Deletion of a job's files that are no longer needed. The server doesn't read these files."""

from __future__ import annotations

import logging
import queue
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from beam_runner_data.side_inputs.side_index import remove_indexes
from beam_runner_model.threads import start_essential_thread
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.spec import StoreSpec

_CLOSE_SECONDS = 20.0
_LOGGER = logging.getLogger(__name__)


class JobFolder:
    """Files of one job. The methods that delete files raise no errors: the end of the job or the next
    server deletes remaining files.

    A remote store can block its caller. Therefore, a separate thread calls the store, with many
    files per call.

    Args:
        spec: location of the files; contains no files of other jobs.
        own: folder for server-only files. If the store is a folder, that folder always replaces it.

    Attributes:
        spec: location of the files.
        folder: folder for server-only files.
    """

    def __init__(self, spec: StoreSpec, own: Path | None = None) -> None:
        folder = spec.folder or own
        assert folder is not None
        self.spec = spec
        self.folder = folder
        self._in_place = spec.folder is not None
        self._store = spec.open_store()
        self._work: queue.SimpleQueue[Callable[[], Iterable[str]] | None] = queue.SimpleQueue()
        if not self._in_place:
            self._start_deletion_thread()

    def _start_deletion_thread(self) -> None:
        self._thread = start_essential_thread(
            self._run_deletions, "garbage", lambda _: self._start_deletion_thread()
        )

    def delete_files(self, names: Iterable[str]) -> None:
        """Deletes files that are no longer needed, possibly later on another thread."""
        if gone := tuple(names):
            self._delete_or_queue(lambda: gone)
        for name in gone:
            remove_indexes(self.folder, name)

    def delete_matching_files(self, pattern: re.Pattern[str], needed: Iterable[str]) -> None:
        """Deletes all files whose full name matches a pattern, except needed files, possibly later on
        another thread.
        """
        kept = set(needed)
        self._delete_or_queue(
            lambda: [n for n in self._list_files() if pattern.fullmatch(n) and n not in kept]
        )

    def delete_process_folder(self, folder: str) -> None:
        """Deletes the folder of an exited process.

        With a remote store, the folder is on the machine of the process, and the next process on it
        deletes the folder.
        """
        shutil.rmtree(self.folder / folder, ignore_errors=True)

    def delete_leftovers(self, needed: Iterable[str]) -> None:
        """Deletes leftovers of an earlier server, which are all files except `needed`, before the job
        starts or after it ends.
        """
        kept = set(needed)
        # Delete unneeded files before the job resumes: later, the folder also contains uncommitted
        # files that aren't in `needed`.
        self._delete_files(lambda: [name for name in self._list_files() if name not in kept])
        # Delete the folders of worker processes, because these processes exited with their server.
        for folder in self.folder.glob("*/") if self._in_place else (self.folder,):
            shutil.rmtree(folder, ignore_errors=True)

    def free_disk_space(self) -> None:
        """Deletes all files of a local store, to free space on a disk that the server possibly uses too."""
        if self._in_place:
            self.delete_all_files()

    def delete_all_files(self) -> None:
        """Deletes all files of the job. Waits for the deletion in a remote store for up to 20 s."""
        if not self._in_place:
            self._work.put(self._list_files)
            self._work.put(None)
            self._thread.join(_CLOSE_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _list_files(self) -> Iterable[str]:
        """Returns the names of files from bundles. Files of processes are in separate folders."""
        if self._in_place:
            return [path.name for path in self.folder.glob("*") if not path.is_dir()]
        return self._store.list_names()

    def _delete_or_queue(self, find: Callable[[], Iterable[str]]) -> None:
        if self._in_place:
            self._delete_files(find)
        else:
            self._work.put(find)

    def _run_deletions(self) -> None:
        while (find := self._work.get()) is not None:
            self._delete_files(find)

    def _delete_files(self, find: Callable[[], Iterable[str]]) -> None:
        try:
            gone = list(find())
            if gone:
                self._store.delete_files(gone)
        except StoreError as error:
            _LOGGER.warning("Can't delete unneeded files now: %s", error)
