"""Folders of a server. Each folder has a marker file, and a lock file for the server that uses the
folder.

If a folder has files but no marker, it isn't a server's folder, and this module never changes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from beam_runner_model.threads import run_concurrently

from beam_runner_storage.errors import StorageError

MARKER = "beam-runner-folder.json"
"""Name of the marker file, which contains the purpose and the format of a folder."""

FORMAT = 1
"""The format of the folders that this version writes."""

ARTIFACTS = "artifacts"
STATE = "state"

_IGNORED_NAMES = {f"{MARKER}.new", "lost+found"}
"""Names that may exist in an unmarked folder: an incomplete marker, and the folder of a new file system."""

_SYNCS_AT_ONCE = 8
"""Number of syncs at the same time. File systems combine the syncs of several threads."""


class FolderInUseError(StorageError):
    """Error for a folder that another server holds."""


def lock_folder(folder: Path, file_name: str, purpose: str) -> BinaryIO:
    """Creates a folder and its marker file if necessary, and locks a file in the folder without
    waiting.

    Args:
        folder: the folder.
        file_name: name of the file to lock.
        purpose: `ARTIFACTS` or `STATE`.

    Returns:
        The locked file, open for reading and writing. The lock lasts until the file is closed or
        the process ends.

    Raises:
        FolderInUseError: Another server holds the lock.
        StorageError: The folder can't be created or written; it has files but no marker; it has
            another purpose or a newer format; or another user created it, or a symbolic link on its
            path, in a shared folder.
    """
    try:
        _check_path_owners(folder, purpose)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check_is_server_folder(folder, file_name, purpose)
        lock_file = os.fdopen(_open_private_file(folder / file_name), "r+b")
    except OSError as error:
        taken = isinstance(error, FileExistsError)
        reason = "the path exists, but isn't a folder" if taken else error.strerror
        raise _build_error(folder, purpose, reason or str(error)) from error
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mark_folder(folder, purpose)
    except BlockingIOError:
        lock_file.close()
        raise FolderInUseError(
            f"the {purpose} folder {folder} is in use by another server; use a separate"
            " folder for this server"
        ) from None
    except OSError as error:
        lock_file.close()
        raise _build_error(folder, purpose, error.strerror or str(error)) from error
    return lock_file


def wait_for_release(
    folder: Path, file_name: str, purpose: str, stopping: threading.Event, pause: float = 0.5
) -> bool:
    """Waits until no other server holds the lock of a folder; returns False after ``stopping`` is set.

    Args:
        folder, file_name, purpose: see `lock_folder`.
        stopping: event that ends the wait.
        pause: time between two attempts in seconds.

    Raises:
        StorageError: see `lock_folder`.
    """
    while not stopping.is_set():
        try:
            lock_folder(folder, file_name, purpose).close()
        except FolderInUseError:
            stopping.wait(pause)
        else:
            return True
    return False


def mark_folder(folder: Path, purpose: str) -> None:
    """Writes the marker file of a server's folder, unless it exists, and removes the access of
    other users.

    Call it only for a folder that was just created or is locked.

    Raises:
        OSError: The folder can't be written.
    """
    marker = folder / MARKER
    if marker.exists():
        return
    if folder.stat().st_uid == os.geteuid():
        folder.chmod(0o700)
    new = folder / f"{MARKER}.new"
    new.unlink(missing_ok=True)
    with os.fdopen(_open_private_file(new), "w", encoding="utf-8") as file:
        json.dump({"purpose": purpose, "format": FORMAT}, file)
        file.flush()
        os.fsync(file.fileno())
    new.rename(marker)
    sync_folder(folder)


def sync_files(paths: Sequence[Path]) -> None:
    """Waits until files and their names are on the disk."""
    run_concurrently(_sync_path, paths, _SYNCS_AT_ONCE, "sync")
    for folder in {path.parent for path in paths}:
        _sync_path(folder)


def sync_folder(folder: Path) -> None:
    """Waits until the names of the files in a folder are on the disk."""
    _sync_path(folder)


def _sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_path_owners(folder: Path, purpose: str) -> None:
    """Raises an error if the folder, or a symbolic link in its path, is in a shared folder and belongs
    to another user.
    """
    path = folder.absolute()
    for step in (path, *path.parents):
        shared = step.parent.exists() and step.parent.stat().st_mode & stat.S_IWOTH
        if not shared or not os.path.lexists(step) or step.lstat().st_uid in (os.geteuid(), 0):
            continue
        if step.is_symlink():
            reason = f"{step} is a symbolic link that another user has created in a shared folder"
            raise _build_error(folder, purpose, reason)
        if step == path:
            raise _build_error(
                folder, purpose, "another user has created the folder in a shared folder"
            )


def _check_is_server_folder(folder: Path, file_name: str, purpose: str) -> None:
    """Raises an error if the folder isn't a folder of a job server; doesn't change the folder."""
    marker = folder / MARKER
    if marker.is_symlink() or marker.exists():
        _check_marker(folder, marker, purpose)
        return
    names = {path.name for path in folder.iterdir()} - _IGNORED_NAMES
    if names <= {file_name}:
        return
    raise _build_error(
        folder,
        purpose,
        f"the folder contains {_format_names(names)}, and no job server created it; a job server"
        " removes unknown files from its folder, so use an empty or a new folder",
    )


def _check_marker(folder: Path, marker: Path, purpose: str) -> None:
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
        marked, written = str(found["purpose"]), int(found["format"])
    except (ValueError, TypeError, KeyError):
        raise _build_error(folder, purpose, f"Can't read {MARKER} in the folder") from None
    if marked != purpose:
        raise _build_error(
            folder,
            purpose,
            f"a job server already uses the folder as its {marked} folder; use another folder",
        )
    if written > FORMAT:
        raise _build_error(
            folder,
            purpose,
            f"a newer version wrote the folder (format {written}; this version supports {FORMAT})",
        )


def _open_private_file(path: Path) -> int:
    """Opens a file for reading and writing, and creates it, with access for this user only, if needed."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _build_error(folder: Path, purpose: str, reason: str) -> StorageError:
    return StorageError(f"Can't use {folder} as {purpose} folder: {reason}")


def _format_names(names: set[str]) -> str:
    """Returns a phrase with up to three names and the number of the others."""
    shown = sorted(names)[:3]
    more = len(names) - len(shown)
    return ", ".join(repr(name) for name in shown) + (f" and {more} more" if more else "")
