"""SQLite databases whose files the server checks when it opens them. A damaged file is moved aside,
never overwritten.

A file gets its name only when it is complete, so an empty or partial file is damaged, not new.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from beam_runner_storage.durable.folders import sync_folder
from beam_runner_storage.durable.logged import LoggedConnection, TransactionLog, restore_database
from beam_runner_storage.errors import StorageError

SEAL_SUFFIX = "-seal"
"""File name suffix of a database's seal: a small file with the checksum of the database's content."""

_COMPANIONS = ("", "-wal", "-shm", SEAL_SUFFIX)
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_UNAVAILABLE = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY}
)
_BUSY_SECONDS = 10.0


@attrs.frozen
class DatabaseSchema:
    """The tables of a kind of database file.

    `statements` create the tables, and `version` is stored in the file.
    """

    version: int
    statements: str


class DatabaseDamaged(StorageError):
    """Raised if a database file differs from the written data; the message names the difference."""


def open_database(
    path: Path, schema: DatabaseSchema, *, durable: bool, log: TransactionLog | None = None
) -> tuple[sqlite3.Connection, str | None]:
    """Opens the file at `path`, or creates it, and returns a sentence about damaged data that was
    moved aside.

    A damaged file is renamed to `<name>.damaged-<n>`, together with its checksum file (seal), and
    replaced by a new file. The caller must hold the lock of the folder, see `folders`. Unused space
    of the file is returned to the disk. One thread at a time may use the connection, and
    transactions begin explicitly, see `begin_transaction`. With `durable`, a commit waits for the
    disk. Without it, a commit survives the end of the process, but not a crash of the machine.
    Opening reads the whole file, at about 1 GB/s.

    With a log, the file must not exist. The function creates it from the log, and the connection is
    a `LoggedConnection`, whose log has not started yet.

    Raises:
        StorageError: Another version wrote the file, or the file can't be read; or the log can't be
            taken over, see `TransactionLog`.
        OSError: The folder can't be written.
    """
    damage = None
    if log is not None:
        restore_database(log, path)
    if path.exists():
        try:
            return _open_connection(path, schema, durable, log is not None), None
        except DatabaseDamaged as error:
            damage = f"{path} is damaged ({error}); a copy of the file is stored as {rename_damaged_database(path)}"
    elif left := [suffix for suffix in ("-wal", SEAL_SUFFIX) if Path(f"{path}{suffix}").exists()]:
        damage = (
            f"{path} is missing, but {path.name}{left[0]} exists; a copy of the"
            f" remaining file is stored as {rename_damaged_database(path)}{left[0]}"
        )
    _create_database(path, schema)
    return _open_connection(path, schema, durable, log is not None), damage


@contextmanager
def begin_transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Runs the `with` block as one transaction of a connection of `open_database`.

    No other process can write to the file during the transaction. Raises sqlite3.Error if the
    transaction can't begin or commit.
    """
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def is_damage_error(error: sqlite3.Error) -> bool:
    """Returns whether an SQLite error reports a damaged file, and not a temporary problem or a wrong statement."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def is_unavailable_error(error: sqlite3.Error) -> bool:
    """Returns whether an SQLite error reports a full or unavailable disk, so that the same transaction
    may succeed later.
    """
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _UNAVAILABLE


def _choose_damaged_file_name(path: Path) -> Path:
    """Returns the first unused name of `<name>.damaged-1`, `-2`, and so on."""
    number = 1
    while any(Path(f"{path}.damaged-{number}{suffix}").exists() for suffix in _COMPANIONS):
        number += 1
    return Path(f"{path}.damaged-{number}")


def copy_damaged_database(connection: sqlite3.Connection, path: Path) -> Path:
    """Copies the database at `path` to a new file that only the file's owner can read; returns the
    path of the copy.
    """
    target = _choose_damaged_file_name(path)
    connection.execute("VACUUM INTO ?", (str(target),))
    target.chmod(0o600)
    return target


def rename_damaged_database(path: Path) -> Path:
    """Renames a closed database and its companion files; returns the new path of the database."""
    target = _choose_damaged_file_name(path)
    for suffix in _COMPANIONS:
        companion = Path(f"{path}{suffix}")
        if companion.exists():
            companion.rename(f"{target}{suffix}")
    return target


def _create_database(path: Path, schema: DatabaseSchema) -> None:
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


def _open_connection(
    path: Path, schema: DatabaseSchema, durable: bool, is_logged: bool
) -> sqlite3.Connection:
    if not path.stat().st_size:
        raise DatabaseDamaged("the file is empty")
    try:
        connection = sqlite3.connect(
            path,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=LoggedConnection if is_logged else sqlite3.Connection,
        )
        # Decode damaged text without an error, so that the checksums detect the damage.
        connection.text_factory = _decode_database_text
        try:
            _check_database(connection, path, schema)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            # Return unused pages of the database file to the disk. Use a script, because `execute`
            # stops after one page.
            connection.executescript("PRAGMA incremental_vacuum")
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        if is_damage_error(error):
            raise DatabaseDamaged(str(error)) from error
        raise StorageError(f"Can't open {path}: {error}") from error
    return connection


def _decode_database_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _check_database(connection: sqlite3.Connection, path: Path, schema: DatabaseSchema) -> None:
    """Checks the content of a database file without changing it.

    Raises the errors of `_open_connection`.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != schema.version:
        raise StorageError(
            f"{path} was written by another program, or by another version of this"
            " program: finish its jobs with that version, or use another folder"
        )
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise DatabaseDamaged(str(found))
