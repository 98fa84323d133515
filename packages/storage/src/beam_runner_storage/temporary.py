"""Temporary folders that do not outlive their server for long: the next one removes what a killed one left.

Beside each folder is a lock file, which the living server holds. So a lock that nobody holds says that the folder
is nobody's any more, whoever ended the server, and however; what has no such file beside it is never touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "beam-spark-"
_RANDOM_BYTES = 4
_LOCK = ".lock"
_LOCKS = re.compile(rf"{_PREFIX}([a-z]+-)?[0-9a-f]{{{2 * _RANDOM_BYTES},}}{re.escape(_LOCK)}")
_SWEEPS = 3
"""How often a folder is gone through in which a process, itself about to end, may still write."""

log = logging.getLogger(__name__)


class TemporaryFolder:
    """A new folder of this user's alone, in the system's folder for temporary files.

        folder = TemporaryFolder("jobs-")
        folder.path.joinpath("scratch").touch()
        folder.remove()

    Making one removes those that servers which were killed have left.

    Args:
        kind: what it is for, a word of small letters and a hyphen; for those who look into the system's.
        shared: where it is made, in place of the system's folder for temporary files.

    Attributes:
        path: the folder.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, kind: str = "", shared: Path | None = None) -> None:
        shared = _shared(shared)
        _remove_left(shared)
        made = None
        while made is None:
            made = _make(shared / f"{_PREFIX}{kind}{secrets.token_hex(_RANDOM_BYTES)}")
        self.path = made[0]
        self._locks = [made[1]]

    def remove(self) -> None:
        """Removes the folder with all that is in it. May be called again, and from any thread."""
        if _remove(self.path):
            with contextlib.suppress(IndexError):
                os.close(self._locks.pop())


class CommonFolder:
    """A temporary folder of all processes on this machine that name it alike; the last one to leave removes it.

    Args:
        kind: as of a `TemporaryFolder`.
        name: of eight or more digits of a hexadecimal number, which nobody uses for anything else.
        shared: as of a `TemporaryFolder`.

    Attributes:
        path: the folder.

    Raises:
        OSError: it cannot be made, or files can't be locked there.
    """

    def __init__(self, kind: str, name: str, shared: Path | None = None) -> None:
        shared = _shared(shared)
        _remove_left(shared)
        self.path = shared / f"{_PREFIX}{kind}{name}"
        self._lock = _join(self.path)

    def leave(self) -> None:
        """Is not to be used by this process any more."""
        try:
            with contextlib.suppress(OSError):  # others are in it
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_named(self._lock, _lock_of(self.path)):
                    _remove(self.path)
        finally:
            os.close(self._lock)


def remove_left(shared: Path | None = None) -> None:
    """Removes what killed servers have left, as making a folder does; for those who need none."""
    _remove_left(_shared(shared))


def _shared(given: Path | None) -> Path:
    return (given or Path(tempfile.gettempdir())).absolute()


def _make(folder: Path) -> tuple[Path, int] | None:
    """Makes a folder, and holds its lock; None if the name is taken."""
    path = _lock_of(folder)
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return None
    try:
        with contextlib.suppress(OSError):  # where files can't be locked, nobody finds them left
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another server takes it for left, and is about to remove it
                os.close(lock)
                return None
        if _is_named(lock, path):  # else another server has just removed it, as nobody held it yet
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


def _join(folder: Path) -> int:
    """Makes a folder if it is not there, and holds its lock beside others."""
    path = _lock_of(folder)
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            # Whoever holds it alone is about to remove the folder.
            fcntl.flock(lock, fcntl.LOCK_SH)
            if os.fstat(lock).st_uid != os.geteuid():
                raise PermissionError(f"{path} is another user's")
            if _is_named(lock, path):
                folder.mkdir(mode=0o700, exist_ok=True)
                if not _is_own_folder(folder):
                    raise PermissionError(f"{folder} is no folder of this user's")
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _remove_left(shared: Path) -> None:
    """Removes the folders of servers that were killed, as far as they are this user's."""
    for path in _files_in(shared):
        if _LOCKS.fullmatch(path.name):
            # It is another user's, or another server that starts at this moment was quicker.
            with contextlib.suppress(OSError), _held(path):
                _remove(path.with_suffix(""))


def _files_in(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # it can be written to, but not looked into
        return []


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Holds a lock file of this user's.

    Raises:
        OSError: it is held, is gone, or is none.
    """
    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(lock)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(f"{path} is no lock of this user's")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_named(lock, path):
            raise FileNotFoundError(f"{path} was removed meanwhile")
        yield
    finally:
        os.close(lock)


def _is_named(lock: int, path: Path) -> bool:
    """Whether an open file is the one that has a name now."""
    try:
        return os.path.samestat(os.fstat(lock), path.lstat())
    except OSError:
        return False


def _remove(folder: Path) -> bool:
    """Removes a folder whose lock is held, then its lock file; False if something of it stays."""
    for _ in range(_SWEEPS):
        if _is_own_folder(folder):
            shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        log.warning("%s can't be removed; the next server tries again", folder)
        return False
    _lock_of(folder).unlink(missing_ok=True)
    return True


def _is_own_folder(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _lock_of(folder: Path) -> Path:
    return folder.with_name(folder.name + _LOCK)
