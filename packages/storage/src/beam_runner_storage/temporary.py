"""Temporary folders that a server removes when it stops. The next server removes the folders of
killed servers.

Next to each folder is a lock file that the running server holds. If no process holds the lock, the
folder is unused, even if its server was killed. A folder without such a file is never touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from beam_runner_storage.removal import remove_tree

_PREFIX = "beam-spark-"
_RANDOM_BYTES = 4
_LOCK = ".lock"
_LOCKS = re.compile(rf"{_PREFIX}([a-z]+-)?[0-9a-f]{{{2 * _RANDOM_BYTES},}}{re.escape(_LOCK)}")

log = logging.getLogger(__name__)


class TemporaryFolder:
    """A new private folder in the system's folder for temporary files.

        folder = TemporaryFolder("jobs-")
        folder.path.joinpath("scratch").touch()
        folder.remove_folder()

    The constructor removes the folders of killed servers.

    Args:
        kind: purpose of the folder, a word of small letters and a hyphen; part of the folder's
            name.
        shared: the parent folder, in place of the system's folder for temporary files.

    Attributes:
        path: the folder.

    Raises:
        OSError: The folder can't be created.
    """

    def __init__(self, kind: str = "", shared: Path | None = None) -> None:
        shared = _get_parent_folder(shared)
        _remove_stale_folders(shared)
        made = None
        while made is None:
            made = _create_locked_folder(
                shared / f"{_PREFIX}{kind}{secrets.token_hex(_RANDOM_BYTES)}"
            )
        self.path = made[0]
        self._locks = [made[1]]

    def remove_folder(self) -> None:
        """Removes the folder with its content. Idempotent, and callable from any thread."""
        if _remove_folder(self.path):
            with contextlib.suppress(IndexError):
                os.close(self._locks.pop())


class SharedTemporaryFolder:
    """A temporary folder that processes on this machine share. They find the folder by its name.

    The last process that leaves the folder removes it.

    Args:
        kind: see `TemporaryFolder`.
        name: a unique hexadecimal number of eight or more digits.
        shared: see `TemporaryFolder`.

    Attributes:
        path: the folder.

    Raises:
        OSError: The folder can't be created, or files can't be locked in it.
    """

    def __init__(self, kind: str, name: str, shared: Path | None = None) -> None:
        shared = _get_parent_folder(shared)
        _remove_stale_folders(shared)
        self.path = shared / f"{_PREFIX}{kind}{name}"
        self._lock = _join_folder(self.path)

    def release_folder(self) -> None:
        """Releases this process's lock on the folder, and removes the folder if no other process uses it."""
        try:
            with contextlib.suppress(OSError):  # other processes still use the folder
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_same_file(self._lock, _get_lock_path(self.path)):
                    _remove_folder(self.path)
        finally:
            os.close(self._lock)


def remove_stale_folders(shared: Path | None = None) -> None:
    """Removes the temporary folders of killed servers, for programs that don't create a folder."""
    _remove_stale_folders(_get_parent_folder(shared))


def _get_parent_folder(given: Path | None) -> Path:
    return (given or Path(tempfile.gettempdir())).absolute()


def _create_locked_folder(folder: Path) -> tuple[Path, int] | None:
    """Creates a folder, and holds its lock; returns None if the name is in use."""
    path = _get_lock_path(folder)
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return None
    try:
        with contextlib.suppress(
            OSError
        ):  # if files can't be locked, no server will find unused folders
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (
                BlockingIOError
            ):  # another server sees the folder as unused, and is about to remove it
                os.close(lock)
                return None
        if _is_same_file(
            lock, path
        ):  # otherwise another server has just removed the folder, because no process held the lock yet
            folder.mkdir(mode=0o700)
            return folder, lock
    except FileExistsError:
        path.unlink()
    except BaseException:
        path.unlink()
        os.close(lock)
        raise
    os.close(lock)
    return None


def _join_folder(folder: Path) -> int:
    """Creates a folder if it doesn't exist, and takes a shared lock on the folder."""
    path = _get_lock_path(folder)
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            # If a process holds the lock exclusively, it is about to remove the folder.
            fcntl.flock(lock, fcntl.LOCK_SH)
            if os.fstat(lock).st_uid != os.geteuid():
                raise PermissionError(f"{path} belongs to another user")
            if _is_same_file(lock, path):
                folder.mkdir(mode=0o700, exist_ok=True)
                if not _is_own_folder(folder):
                    raise PermissionError(f"{folder} isn't a folder of this user")
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _remove_stale_folders(shared: Path) -> None:
    """Removes the folders of killed servers that belong to this user."""
    for path in _list_files(shared):
        if _LOCKS.fullmatch(path.name):
            # Ignore errors: the folder belongs to another user, or another starting server removed it.
            with contextlib.suppress(OSError), _hold_file_lock(path):
                _remove_folder(path.with_suffix(""))


def _list_files(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # the folder is writable, but not readable
        return []


@contextlib.contextmanager
def _hold_file_lock(path: Path) -> Iterator[None]:
    """Holds the exclusive lock of a lock file that this user created.

    Raises:
        OSError: The file is locked, is gone, or isn't a lock file.
    """
    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(lock)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(f"Lock file {path} belongs to another user")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_same_file(lock, path):
            raise FileNotFoundError(f"{path} was removed in the meantime")
        yield
    finally:
        os.close(lock)


def _is_same_file(lock: int, path: Path) -> bool:
    """Returns whether an open file is still the file at a path."""
    try:
        return os.path.samestat(os.fstat(lock), path.lstat())
    except OSError:
        return False


def _remove_folder(folder: Path) -> bool:
    """Removes a folder whose lock is held, then its lock file; returns False if the folder can't be removed."""
    if _is_own_folder(folder):
        remove_tree(folder)
    if os.path.lexists(folder):
        log.warning("Can't remove %s; the next server retries", folder)
        return False
    _get_lock_path(folder).unlink(missing_ok=True)
    return True


def _is_own_folder(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _get_lock_path(folder: Path) -> Path:
    return folder.with_name(folder.name + _LOCK)
