"""SQLite files that are checked when they are opened, and set aside, never reset, when damaged.

A file appears under its name only when it is complete, so that an empty or half one is damaged and
not new.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from beam_runner_storage.durable.folders import sync_folder
from beam_runner_storage.durable.logged import LoggedConnection, TransactionLog, restore
from beam_runner_storage.errors import StorageError

SEAL_SUFFIX = "-seal"
"""What the name of a database's seal ends with, see `seals`."""

_COMPANIONS = ("", "-wal", "-shm", SEAL_SUFFIX)
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_UNAVAILABLE = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY}
)
_BUSY_SECONDS = 10.0


@attrs.frozen
class Schema:
    """The tables of a kind of file: `statements` make them, `version` is kept in the file."""

    version: int
    statements: str


class DatabaseDamaged(StorageError):
    """A file is not what was written to it; the text says what is wrong with it."""


def open_database(
    path: Path, schema: Schema, *, durable: bool, log: TransactionLog | None = None
) -> tuple[sqlite3.Connection, str | None]:
    """Open the file at `path`, new where there is none, and say in a sentence what was set aside.

    A damaged file is moved to `<name>.damaged-<n>`, its seal with it, and replaced with a new
    one. The caller holds the folder, see `folders`. What is not used in it any more is given back to the disk. The connection may be used from any thread, by one at a time, and begins
    transactions only when told, see `transaction`. With `durable` a commit waits for the disk;
    without, it survives the end of the process but not that of the machine. Reads the whole file,
    at about a second for each GB.

    With a log the file, which must not be there yet, is made of what the log has, and the connection is a
    `LoggedConnection`, which has not begun yet.

    Raises:
        StorageError: the file was written by another version, or cannot be read; or the log
            can't be taken over, see `TransactionLog`.
        OSError: the folder cannot be written.
    """
    damage = None
    if log is not None:
        restore(log, path)
    if path.exists():
        try:
            return _open(path, schema, durable, log is not None), None
        except DatabaseDamaged as error:
            damage = f"{path} is damaged ({error}); it is kept as {set_aside(path)}"
    elif left := [suffix for suffix in ("-wal", SEAL_SUFFIX) if Path(f"{path}{suffix}").exists()]:
        damage = (
            f"{path} is missing, but not {path.name}{left[0]}; what is left is kept as"
            f" {set_aside(path)}{left[0]}"
        )
    _create(path, schema)
    return _open(path, schema, durable, log is not None), damage


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All or nothing of what is done to a connection of `open_database`.

    Nobody else writes to the file meanwhile. Raises sqlite3.Error if it can't be begun or committed.
    """
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite says that the file, and not the moment or the statement, is wrong."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def is_unavailable(error: sqlite3.Error) -> bool:
    """Whether SQLite says that the disk is full or away, so that the same transaction may succeed later."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _UNAVAILABLE


def _name_aside(path: Path) -> Path:
    """The first of `<name>.damaged-1`, `-2`, ... that is not taken."""
    number = 1
    while any(Path(f"{path}.damaged-{number}{suffix}").exists() for suffix in _COMPANIONS):
        number += 1
    return Path(f"{path}.damaged-{number}")


def copy_aside(connection: sqlite3.Connection, path: Path) -> Path:
    """Keep what is in the database at `path` in a file of its own, for its user alone; returns its path."""
    target = _name_aside(path)
    connection.execute("VACUUM INTO ?", (str(target),))
    target.chmod(0o600)
    return target


def set_aside(path: Path) -> Path:
    """Move a closed database with its companions; returns its new path."""
    target = _name_aside(path)
    for suffix in _COMPANIONS:
        companion = Path(f"{path}{suffix}")
        if companion.exists():
            companion.rename(f"{target}{suffix}")
    return target


def _create(path: Path, schema: Schema) -> None:
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    connection = sqlite3.connect(new, isolation_level=None)
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.executescript(schema.statements)
        connection.execute(f"PRAGMA user_version = {schema.version}")
    finally:
        connection.close()
    new.chmod(0o600)
    new.rename(path)
    sync_folder(path.parent)


def _open(path: Path, schema: Schema, durable: bool, is_logged: bool) -> sqlite3.Connection:
    if not path.stat().st_size:
        raise DatabaseDamaged("it is empty")
    try:
        connection = sqlite3.connect(
            path,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=LoggedConnection if is_logged else sqlite3.Connection,
        )
        # Text that is damaged is to be found by its checksum, as all else is.
        connection.text_factory = _text
        try:
            _check(connection, path, schema)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            # Gives back what is not used; only a script is run to its end: by `execute` one page is given back.
            connection.executescript("PRAGMA incremental_vacuum")
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        if is_damage(error):
            raise DatabaseDamaged(str(error)) from error
        raise StorageError(f"{path} cannot be opened: {error}") from error
    return connection


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _check(connection: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Read the file without changing anything in it; raises what `_open` does."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != schema.version:
        raise StorageError(
            f"{path} was written by another program, or another version of this one: finish its"
            " jobs with that, or use another folder"
        )
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise DatabaseDamaged(str(found))
