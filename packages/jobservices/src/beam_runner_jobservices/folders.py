"""Folders of a server: held by a lock on a file, and written to the disk."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO

from .errors import JobServicesError


def hold_folder(folder: Path, file_name: str, purpose: str) -> BinaryIO:
    """Make `folder` where it is not there, and lock `file_name` in it, without waiting.

    The lock lasts until the returned file, open for reading and writing, is closed, or the process
    ends. `purpose` says in errors what the folder is for, as in "artifacts".

    Raises:
        JobServicesError: another server holds it, or it cannot be made or written.
    """
    path = folder / file_name
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        lock_file = path.open("r+b")
    except OSError as error:
        taken = isinstance(error, FileExistsError)
        reason = "it is there and is no folder" if taken else error.strerror
        raise JobServicesError(f"cannot use {folder} as {purpose} folder: {reason}") from error
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock_file.close()
        raise JobServicesError(
            f"the {purpose} folder {folder} is in use by another server;"
            " give this one a folder of its own"
        ) from None
    return lock_file


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in `folder` are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
