"""Deletion of data files that a job no longer needs."""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from beam_runner_data.side_inputs.side_index import remove_indexes
from beam_runner_model.threads import start_essential_thread
from beam_runner_storage.removal import remove_tree
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.spec import StoreSpec

_CLOSE_SECONDS = 20.0
_LOGGER = logging.getLogger(__name__)


class JobFolder:
    """Data files of one job, which a separate thread deletes. Failed deletions raise no errors: the
    end of the job or the next server deletes the remaining files.

    The separate thread exists because a remote store can block its caller.

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
        self._lock = threading.Lock()
        self._keepers = 0
        self._postponed: list[str] = []
        self._work: queue.SimpleQueue[Callable[[], Iterable[str]] | None] = queue.SimpleQueue()
        if not self._in_place:
            self._start_deletion_thread()

    def _start_deletion_thread(self) -> None:
        self._thread = start_essential_thread(
            self._run_deletions, "garbage", lambda _: self._start_deletion_thread()
        )

    def postpone_deletions(self) -> None:
        """Postpones the deletion of single files. Each call needs a later call of `release_files`."""
        with self._lock:
            self._keepers += 1

    def release_files(self) -> None:
        """Ends one postponement. After the last, deletes the files whose deletion was postponed."""
        with self._lock:
            self._keepers -= 1
            gone = [] if self._keepers else self._postponed
            if not self._keepers:
                self._postponed = []
        self.delete_files(gone)

    def delete_files(self, names: Iterable[str]) -> None:
        """Deletes files that are no longer needed, possibly later on another thread."""
        gone = tuple(names)
        with self._lock:
            if self._keepers:
                self._postponed += gone
                return
        if gone:
            self._delete_or_queue(lambda: gone)
        for name in gone:
            remove_indexes(self.folder, name)

    def delete_matching_files(self, pattern: re.Pattern[str], needed: Iterable[str]) -> None:
        """Deletes all files whose full name matches a pattern, except needed files, possibly later
        on another thread.
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
        remove_tree(self.folder / folder)

    def delete_leftovers(self, needed: Iterable[str]) -> None:
        """Deletes all files of earlier servers except `needed`. Call this method before the job
        starts or after it ends.
        """
        kept = set(needed)
        # Delete unneeded files before the job resumes: later, the folder also contains uncommitted
        # files that aren't in `needed`.
        self._delete_files(lambda: [name for name in self._list_files() if name not in kept])
        # Delete the folders of worker processes, because these processes exited with their server.
        self._delete_process_folders()

    def _delete_process_folders(self) -> None:
        for folder in self.folder.glob("*/") if self._in_place else (self.folder,):
            remove_tree(folder)

    def free_disk_space(self) -> None:
        """Deletes all files if the store is a local folder, because the server can need space on the same disk."""
        if self._in_place:
            self.delete_all_files()

    def delete_all_files(self) -> None:
        """Deletes all files of the job. Waits for the deletion in a remote store for up to 20 s."""
        if not self._in_place:
            self._work.put(self._list_files)
            self._work.put(None)
            self._thread.join(_CLOSE_SECONDS)
        remove_tree(self.folder)

    def leave_files_to_successor(self) -> None:
        """Leaves the data files to the job that replaces this job. Deletes the folders of exited worker processes."""
        self._delete_process_folders()
        self.close()

    def close(self) -> None:
        """Ends the deletion thread after the requests so far."""
        if not self._in_place:
            self._work.put(None)

    def _list_files(self) -> Iterable[str]:
        """Returns the names of the files that bundles wrote. Doesn't include the folders of worker processes."""
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
