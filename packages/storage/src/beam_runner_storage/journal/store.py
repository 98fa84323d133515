"""The journals of all jobs of a server, in one SQLite file. Each start of a server begins a new epoch,
and only the latest epoch can write to the file.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beam_runner_storage.durable.databases import (
    DatabaseSchema,
    begin_transaction,
    copy_damaged_database,
    is_damage_error,
    is_unavailable_error,
    open_database,
)
from beam_runner_storage.durable.folders import STATE, lock_folder
from beam_runner_storage.durable.logged import (
    LogFailed,
    LogFenced,
    LoggedConnection,
    LogUnavailable,
    TransactionLog,
    start_logging,
)
from beam_runner_storage.durable.seals import SEAL_TABLE, Change, DatabaseSeal
from beam_runner_storage.journal.errors import (
    JournalDamaged,
    JournalError,
    JournalFenced,
    JournalUnavailable,
)
from beam_runner_storage.journal.journal import (
    Journal,
    list_journal_checksums,
    remove_journal,
    remove_orphaned_data,
    verify_journal,
)
from beam_runner_storage.journal.lineages import (
    LINEAGE_TABLE,
    Lineage,
    read_lineage,
    read_successor,
)
from beam_runner_storage.unavailable import (
    ExternalSystemUnavailable,
    build_disk_error,
    is_disk_unavailable,
)

FILE = "journal.sqlite"
LOCK = "journal.lock"
_LOG_SECONDS = 5.0
"""Maximum time in seconds that a commit waits for the remote log, before the journal counts as unavailable."""


_SCHEMA = DatabaseSchema(
    2,
    f"""
    CREATE TABLE epochs (only INTEGER PRIMARY KEY CHECK (only = 0), epoch INTEGER NOT NULL);
    INSERT INTO epochs VALUES (0, 0);
    CREATE TABLE journals (
        journal INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT NOT NULL UNIQUE,
        next INTEGER NOT NULL DEFAULT 0, head INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE snapshots (
        journal INTEGER PRIMARY KEY, entries INTEGER NOT NULL, checksum INTEGER NOT NULL,
        state BLOB NOT NULL
    );
    CREATE TABLE entries (
        place INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, entry BLOB NOT NULL
    );
    {SEAL_TABLE}
    """,
)


_KEPT_TABLE = """
    CREATE TABLE IF NOT EXISTS kept (job_id TEXT PRIMARY KEY, since INTEGER NOT NULL)
"""
"""SQL statement for the table of finished jobs with retained journals. The table is not part of the
schema, because files of earlier versions lack it.
"""


class JournalStore:
    """Journals of all jobs in ``folder``, opened as a new epoch; creates a missing folder.

    Thread-safe: each job appends from its own thread, one append after the other. With ``durable``,
    appended data survives a crash of the machine; otherwise, it survives only the end of the
    process.

    The constructor reads and verifies all data. If SQLite can't read the file, the constructor
    renames the file. If single jobs are damaged, the constructor copies the file and removes these
    jobs.

    With ``log``, the journals are stored in a remote log. ``folder`` must be empty then, and is
    needed only during the lifetime of this server.

    Raises:
        StorageError: Another server uses the folder, or another version wrote the file; or the log
            is damaged or can't be read.
        JournalError: The file can't be read or written.
        OSError: The folder can't be created or written.
    """

    def __init__(self, folder: Path, durable: bool, log: TransactionLog | None = None) -> None:
        self._path = folder.absolute() / FILE
        self._syncs = durable and log is None
        self.durable = durable
        """Whether appended data survives a crash of the machine."""
        self._mutex = threading.Lock()
        self._journals: dict[str, Journal] = {}
        self._damage: list[str] = []
        self._lock_file = lock_folder(folder.absolute(), LOCK, STATE)
        self._connection: sqlite3.Connection | None = None
        self._seals = DatabaseSeal(self._path, is_restored=log is not None)
        try:
            self._connection = self._open_database(log)
            self._connection.execute(_KEPT_TABLE)
            self._connection.execute(LINEAGE_TABLE)
            self._remove_damaged_journals()
            self.epoch = self._begin_epoch()
            """Epoch: the number of this opening, larger than all earlier epochs of this folder."""
            if log is not None:
                start_logging(self._connection, log, self._path, self._damage)
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise JournalError(f"Can't open {self._path}: {error}") from error
        except BaseException:
            self.close()
            raise

    @property
    def damage(self) -> tuple[str, ...]:
        """Sentences for the operator about damaged data, with the path of the moved data."""
        return tuple(self._damage)

    def get_journal(self, job_id: str) -> Journal:
        """Returns the journal of a job. The first append or snapshot creates it in the file."""
        with self._mutex:
            found = self._journals.get(job_id)
            if found is None:
                found = self._journals[job_id] = Journal(
                    job_id, self.begin_read_transaction, self.begin_write_transaction
                )
            return found

    def list_job_ids(self) -> tuple[str, ...]:
        """Returns the jobs that have a journal, oldest first."""
        with self.begin_read_transaction() as connection:
            return _list_job_ids(connection)

    def list_finished_jobs(self) -> dict[str, int]:
        """Returns the finished jobs with retained journals, and the end time of each (seconds since 1970)."""
        with self.begin_read_transaction() as connection:
            return dict(connection.execute("SELECT job_id, since FROM kept"))

    def find_lineage(self, job_id: str) -> Lineage:
        """Returns the lineage of a job. The lineage names the first job of the chain, whose folder
        has the files.
        """
        with self.begin_read_transaction() as connection:
            return read_lineage(connection, job_id)

    def find_successor(self, job_id: str) -> str:
        """Returns the ID of the job that replaced a job; empty if no job replaced it."""
        with self.begin_read_transaction() as connection:
            return read_successor(connection, job_id)

    def close(self) -> None:
        """Releases the folder; idempotent. Later appends raise an error."""
        with self._mutex:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self._seals.close()
            self._lock_file.close()

    @contextmanager
    def begin_read_transaction(self) -> Iterator[sqlite3.Connection]:
        """Runs the `with` block as one consistent read, while this server (its epoch) owns the
        folder.

        Raises:
            JournalFenced: The epoch doesn't own the folder.
            JournalDamaged: The file is damaged. The next server that opens the file renames it.
            JournalError: The store is closed, or the file can't be read.
        """
        with self._lock_connection() as connection, begin_transaction(connection):
            self._check_epoch(connection)
            yield connection

    @contextmanager
    def begin_write_transaction(self) -> Iterator[tuple[sqlite3.Connection, Change]]:
        """Runs the `with` block as one transaction that also updates the seal, while this server
        (its epoch) owns the folder.

        Raises:
            JournalFenced: A later server (epoch) owns the folder.
            JournalDamaged: The file is damaged. The next server that opens the file renames it.
            JournalUnavailable: The disk is full or unavailable.
            JournalError: The store is closed, or the file can't be written.
        """
        with (
            self._lock_connection() as connection,
            self._seals.begin_sealed_transaction(connection) as change,
        ):
            self._check_epoch(connection)
            yield connection, change
        if isinstance(connection, LoggedConnection):
            self._wait_for_log(connection)

    def _wait_for_log(self, connection: LoggedConnection) -> None:
        """Waits until the committed data is in the remote log. Other jobs may commit meanwhile."""
        try:
            connection.wait_until_durable(_LOG_SECONDS)
        except LogUnavailable as error:
            raise JournalUnavailable(
                ExternalSystemUnavailable(error.place, error.reason)
            ) from error
        except LogFenced as error:
            raise JournalFenced(str(error)) from error
        except LogFailed as error:
            raise JournalError(str(error)) from error

    @contextmanager
    def _lock_connection(self) -> Iterator[sqlite3.Connection]:
        with self._mutex:
            if self._connection is None:
                raise JournalError(f"{self._path} is closed")
            try:
                yield self._connection
            except (sqlite3.Error, OSError) as error:
                raise self._convert_database_error(error) from error

    def _convert_database_error(self, error: sqlite3.Error | OSError) -> JournalError:
        if isinstance(error, sqlite3.Error) and is_damage_error(error):
            return JournalDamaged(f"Can't use {self._path}: {error}")
        if isinstance(error, OSError) and is_disk_unavailable(error):
            return JournalUnavailable(build_disk_error(error, self._path.parent))
        if isinstance(error, sqlite3.Error) and is_unavailable_error(error):
            neighbour = f"the disk of {self._path.parent}"
            return JournalUnavailable(ExternalSystemUnavailable(neighbour, str(error)))
        return JournalError(f"Can't use {self._path}: {error}")

    def _check_epoch(self, connection: sqlite3.Connection) -> None:
        (epoch,) = connection.execute("SELECT epoch FROM epochs").fetchone()
        if epoch != self.epoch:
            raise JournalFenced(
                f"another server has taken over {self._path}: this server has epoch"
                f" {self.epoch}, and the other server has epoch {epoch}; this server"
                " commits nothing more"
            )

    def _open_database(self, log: TransactionLog | None) -> sqlite3.Connection:
        was_there = self._path.exists() or not self._read_stored_epoch()
        connection, damage = open_database(self._path, _SCHEMA, durable=self._syncs, log=log)
        if damage is None and not was_there:
            damage = f"{self._path} is missing, although a server has used this folder before"
        if damage is not None:
            self._damage.append(f"{damage}; the jobs in the file can't be resumed")
        return connection

    def _remove_damaged_journals(self) -> None:
        """Copies the database file for the operator, and then removes damaged journals."""
        assert self._connection is not None
        connection = self._connection
        damage = self._seals.check_content(connection, list_journal_checksums(connection))
        reasons = self._find_damaged_journals()
        if not reasons and damage is None:
            return
        kept = copy_damaged_database(connection, self._path)
        if damage is not None:
            self._damage.append(f"{self._path}: {damage}; a copy of the file is stored as {kept}")
            if self._seals.was_readable:
                # The seal (the database's checksum file) doesn't say which job made the missing
                # commits, so no job can be resumed.
                all_jobs = dict.fromkeys(
                    _list_job_ids(connection), "the file of the journal is damaged"
                )
                reasons = all_jobs | reasons
        self._damage.extend(
            f"the journal of job {job_id} in {self._path} is damaged ({reason}), and"
            f" the job can't be resumed; a copy of the file is stored as {kept}"
            for job_id, reason in reasons.items()
        )
        with begin_transaction(connection):
            for job_id in reasons:
                remove_journal(connection, job_id)
            remove_orphaned_data(connection)
        self._seals.renew_seal(connection, list_journal_checksums(connection))

    def _find_damaged_journals(self) -> dict[str, str]:
        """Returns the damage of each damaged journal, by job ID."""
        assert self._connection is not None
        reasons = {}
        for job_id in _list_job_ids(self._connection):
            try:
                verify_journal(self._connection, job_id)
            except JournalDamaged as error:
                reasons[job_id] = str(error)
        return reasons

    def _begin_epoch(self) -> int:
        """Stores and returns the next epoch, which is the number of this server start.

        The lock file also stores the epoch, in case the database is moved aside.
        """
        assert self._connection is not None
        with begin_transaction(self._connection) as connection:
            (before,) = connection.execute("SELECT epoch FROM epochs").fetchone()
            epoch = 1 + max(int(before), self._read_stored_epoch())
            connection.execute("UPDATE epochs SET epoch = ?", (epoch,))
        self._lock_file.seek(0)
        self._lock_file.write(b"%d\n" % epoch)
        self._lock_file.truncate()
        self._lock_file.flush()
        os.fsync(self._lock_file.fileno())
        return epoch

    def _read_stored_epoch(self) -> int:
        self._lock_file.seek(0)
        text = self._lock_file.read().strip()
        return int(text) if text.isdigit() else 0


def _list_job_ids(connection: sqlite3.Connection) -> tuple[str, ...]:
    found = connection.execute("SELECT job_id FROM journals ORDER BY journal")
    return tuple(job_id for (job_id,) in found)
