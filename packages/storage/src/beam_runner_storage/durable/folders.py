"""Folders of a server: marked as its own, held by a lock on a file, and written to the disk.

A folder with anything in it that no server has marked belongs to somebody else and is never touched.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from beam_runner_model.threads import run_together

from beam_runner_storage.errors import StorageError

MARKER = "beam-runner-folder.json"
"""The file that says what a folder is for, and in which form."""

FORMAT = 1
"""The form of the folders that this version writes."""

ARTIFACTS = "artifacts"
STATE = "state"

_OF_NOBODY = {f"{MARKER}.new", "lost+found"}
"""What may be in a folder before it is marked: a marker half written, what a file system begins with."""

_SYNCS_AT_ONCE = 8
"""File systems write together what several threads sync at the same time."""


def hold_folder(folder: Path, file_name: str, purpose: str) -> BinaryIO:
    """Make `folder` where it is not there, mark it as ours, and lock `file_name` in it, without
    waiting.

    The lock lasts until the returned file, open for reading and writing, is closed, or the process
    ends. `purpose` is `ARTIFACTS` or `STATE`.

    Raises:
        StorageError: another server holds it, it cannot be made or written, or it is not ours:
            something is in it and no marker, it is for another purpose or of a newer version, or
            another user has put it, or a symbolic link that leads to it, into a shared folder.
    """
    try:
        _check_way(folder, purpose)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check_is_ours(folder, file_name, purpose)
        lock_file = os.fdopen(_open_private(folder / file_name), "r+b")
    except OSError as error:
        taken = isinstance(error, FileExistsError)
        reason = "the path exists, but isn't a folder" if taken else error.strerror
        raise _cannot_use(folder, purpose, reason or str(error)) from error
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mark_folder(folder, purpose)
    except BlockingIOError:
        lock_file.close()
        raise StorageError(
            f"the {purpose} folder {folder} is in use by another server; use a separate"
            " folder for this server"
        ) from None
    except OSError as error:
        lock_file.close()
        raise _cannot_use(folder, purpose, error.strerror or str(error)) from error
    return lock_file


def mark_folder(folder: Path, purpose: str) -> None:
    """Mark a folder that is there as ours, unless it is marked: from then on it is this user's alone.

    For a folder that was just made, or is locked.

    Raises:
        OSError: it cannot be written.
    """
    marker = folder / MARKER
    if marker.exists():
        return
    if folder.stat().st_uid == os.geteuid():
        folder.chmod(0o700)
    new = folder / f"{MARKER}.new"
    new.unlink(missing_ok=True)
    with os.fdopen(_open_private(new), "w", encoding="utf-8") as file:
        json.dump({"purpose": purpose, "format": FORMAT}, file)
        file.flush()
        os.fsync(file.fileno())
    new.rename(marker)
    sync_folder(folder)


def sync_files(paths: Sequence[Path]) -> None:
    """Waits until files and their names are on the disk."""
    run_together(_sync, paths, _SYNCS_AT_ONCE, "sync")
    for folder in {path.parent for path in paths}:
        _sync(folder)


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in `folder` are on the disk."""
    _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_way(folder: Path, purpose: str) -> None:
    """Raise what `hold_folder` does where somebody else, in a folder that all may write to, has put
    `folder` there or a symbolic link on the way to it.
    """
    path = folder.absolute()
    for step in (path, *path.parents):
        shared = step.parent.exists() and step.parent.stat().st_mode & stat.S_IWOTH
        if not shared or not os.path.lexists(step) or step.lstat().st_uid in (os.geteuid(), 0):
            continue
        if step.is_symlink():
            reason = f"{step} is a symbolic link that another user has created in a shared folder"
            raise _cannot_use(folder, purpose, reason)
        if step == path:
            raise _cannot_use(folder, purpose, "another user has created it in a shared folder")


def _check_is_ours(folder: Path, file_name: str, purpose: str) -> None:
    """Raise what `hold_folder` does, before anything in the folder is touched."""
    marker = folder / MARKER
    if marker.is_symlink() or marker.exists():
        _check_marker(folder, marker, purpose)
        return
    names = {path.name for path in folder.iterdir()} - _OF_NOBODY
    if names <= {file_name}:
        return
    raise _cannot_use(
        folder,
        purpose,
        f"the folder contains {_some(names)} and isn't marked as a folder of a job"
        " server, which would remove these files; use an empty or a new folder",
    )


def _check_marker(folder: Path, marker: Path, purpose: str) -> None:
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
        marked, written = str(found["purpose"]), int(found["format"])
    except (ValueError, TypeError, KeyError):
        raise _cannot_use(folder, purpose, f"Can't read {MARKER} in the folder") from None
    if marked != purpose:
        raise _cannot_use(folder, purpose, f"the folder is the {marked} folder of a job server")
    if written > FORMAT:
        raise _cannot_use(
            folder,
            purpose,
            f"a newer version wrote the folder (format {written}; this version supports {FORMAT})",
        )


def _open_private(path: Path) -> int:
    """Open a file of this user's own for reading and writing, made where it is not there."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _cannot_use(folder: Path, purpose: str, reason: str) -> StorageError:
    return StorageError(f"Can't use {folder} as {purpose} folder: {reason}")


def _some(names: set[str]) -> str:
    """A few names, and how many more, with their verb."""
    shown = sorted(names)[:3]
    more = len(names) - len(shown)
    listed = ", ".join(repr(name) for name in shown) + (f" and {more} more" if more else "")
    return f"{listed} {'are' if len(names) > 1 else 'is'}"
