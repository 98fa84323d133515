"""Commits of `WriteFilesExactlyOnce`: creation of a commit mark and a file, and completion of a
window's folder.

A mark is a small file ``_beam/RUN/SHARD-NUMBER`` with the digest of the commit. The committer creates the
mark before the file, and the store lets only one process create it. So a job with an old copy of its
state, or with the run of another job, finds another digest before it writes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beam_runner_storage.stores.ports import MissingFileError, StoreError
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_storage.unavailable import ExternalSystemUnavailable, convert_disk_errors

from beam_spark_io.exactly_once.protocols import (
    CommitId,
    CommitMark,
    SinkUnavailable,
    is_committed,
)
from beam_spark_io.files.formats import FileFormat

_MARKS_KEPT = 100
"""Number of latest commit marks that the committer keeps for each shard, in addition to the first mark."""


class FileCommitter:
    """Committer that writes one file for each commit.

    Args:
        spec: address of the store.
        format: format of the files.
    """

    def __init__(self, spec: StoreSpec, format: FileFormat) -> None:
        self._format = format
        self._store = spec.open_store()
        self._last = 0

    def commit(self, commit_id: CommitId, elements: Sequence[Any]) -> str:
        """Writes the file of a commit, and returns the name of the file. A repeated commit writes
        the same file.

        Raises:
            CommitConflict: A mark is missing, or has the digest of other elements.
            SinkUnavailable: The store doesn't respond, or refuses a request.
        """
        file_name = f"{commit_id.run}-{commit_id.shard:05}-{commit_id.number:09}"
        window = None if commit_id.window is None else commit_id.window.name
        name = f"{_get_target_folder(window)}{file_name}{self._format.extension}"
        with (
            convert_store_errors(),
            tempfile.TemporaryDirectory(prefix="beam-file-") as folder,
        ):
            file = Path(folder) / "file"
            self._format.write([_convert_to_mapping(element) for element in elements], file)
            self._create_mark(commit_id)
            self._store.put_file(name, file)
            self._remove_old_marks(commit_id)
        self._last = commit_id.number
        return name

    def close(self) -> None:
        """Does nothing: a store has no connection to close."""

    def _create_mark(self, commit_id: CommitId) -> None:
        number = commit_id.number
        if number > 1 and number != self._last + 1:
            is_committed(commit_id, self._read_mark(commit_id, number - 1))
        digest = commit_id.digest.hex().encode()
        if not self._store.create_file(_make_mark_name(commit_id, number), digest):
            is_committed(commit_id, self._read_mark(commit_id, number))

    def _read_mark(self, commit_id: CommitId, number: int) -> CommitMark:
        try:
            digest = self._store.read_file(_make_mark_name(commit_id, number))
        except MissingFileError:
            return CommitMark()
        return CommitMark(number, bytes.fromhex(digest.decode()))

    def _remove_old_marks(self, commit_id: CommitId) -> None:
        if commit_id.number % _MARKS_KEPT == 0:
            last = commit_id.number - _MARKS_KEPT
            numbers = range(max(2, last - _MARKS_KEPT + 1), last + 1)
            self._store.delete_files(_make_mark_name(commit_id, number) for number in numbers)


def complete_window_folder(spec: StoreSpec, run: str, window: str | None) -> str | None:
    """Removes the unfinished files of a run and window, and creates the window's ``_SUCCESS`` file.

    All commits of the window are recorded, so the complete files exist. Unfinished files are from
    killed or suspended processes. A suspended process that continues can't rename its removed file,
    which isn't needed anymore.

    Args:
        spec: address of the store.
        run: the run.
        window: name of the window; None for a run without windows.

    Returns:
        The name of the ``_SUCCESS`` file; None without windows.
    """
    store = spec.open_store()
    with convert_store_errors():
        store.delete_unfinished_files(f"{_get_target_folder(window)}{run}-")
        if window is None:
            return None
        name = f"{_get_target_folder(window)}_SUCCESS"
        store.create_file(name, b"")
    return name


@contextmanager
def convert_store_errors() -> Iterator[None]:
    """Converts errors of a store or disk that an operator can fix, within a ``with`` block.

    Raises:
        SinkUnavailable: The store doesn't respond, is full, or refuses a request.
    """
    try:
        with convert_disk_errors(Path(tempfile.gettempdir())):
            yield
    except MissingFileError:
        raise
    except (StoreError, ExternalSystemUnavailable) as error:
        raise SinkUnavailable(str(error)) from error


def _get_target_folder(window: str | None) -> str:
    return "" if window is None else f"{window}/"


def _make_mark_name(commit_id: CommitId, number: int) -> str:
    return f"_beam/{commit_id.run}/{commit_id.shard:05}-{number:09}"


def _convert_to_mapping(element: Any) -> Mapping[str, Any]:
    if isinstance(element, Mapping):
        return element
    return element._asdict() if hasattr(element, "_asdict") else dict(vars(element))
