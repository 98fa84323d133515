"""Storage of a server's jobs in an SQLite file, from which the next server restores them."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from beam_runner_model.errors import Unavailable
from beam_runner_model.jobs import JobMessage, JobMetrics, JobSpec, JobState, StateEvent
from beam_runner_model.observation import JobTimes, StageTimeSeries
from beam_runner_model.successions import Succession
from beam_runner_storage.durable.commits import GroupCommitter
from beam_runner_storage.durable.databases import (
    begin_transaction,
    copy_damaged_database,
    open_database,
)
from beam_runner_storage.durable.folders import STATE, lock_folder
from beam_runner_storage.durable.logged import (
    LogFailed,
    LogUnavailable,
    TransactionLog,
    start_logging,
)
from beam_runner_storage.durable.seals import Change, DatabaseSeal

from beam_runner_jobservices.archive import Archive, pack_archive, unpack_archive
from beam_runner_jobservices.error_log import JobErrors
from beam_runner_jobservices.errors import DamagedData, DiskFull, NotFound
from beam_runner_jobservices.job_tables import (
    DROPPED_EACH,
    ERRORS,
    IDENTITY,
    NO_JOB,
    SCHEMA,
    SERIES,
    SUCCESSION,
    USER,
    compute_job_checksum,
    decode_artifacts,
    delete_rows,
    encode_artifacts,
    put_content,
    put_job_note,
    put_messages,
    put_state,
    read_content,
    read_entries,
    read_job_note,
    remove_job,
    replace_content_by_archive,
    update_seal,
)
from beam_runner_jobservices.observation_json import make_record
from beam_runner_jobservices.recorder import FinishedJobSummary, UnfinishedJob
from beam_runner_jobservices.texts import format_exception

_LOGGER = logging.getLogger(__name__)

FILE = "jobs.sqlite"
LOCK = "jobs.lock"
_RECORD_SECONDS = 30.0
"""Maximum time for which a submission waits for the log. Beam's client waits for 60 s."""

_USED = b"used\n"
"""Content of the lock file after a list of jobs was created. If the list doesn't exist anymore,
this content shows that the list was lost.
"""


class JobFile:
    """The jobs stored in `folder`, which is created if it doesn't exist. Implements `Recorder`.

    If SQLite can't read the file, the file is renamed. If only some jobs are damaged, the file is
    copied, and these jobs are removed. `seals` explains how missing data is detected, and `damage`
    describes the damage. When the file is opened, only the list entries of finished jobs are read;
    `read_archive` reads the other data of a finished job.

    With a log, the jobs are stored in the log. `folder` then contains no file yet, and serves as
    temporary storage of this server.

    Raises:
        RunnerError: another server uses the folder, another version wrote the file, or the folder
            belongs to another program (see `folders`); or the log is damaged or can't be read.
        OSError: the folder can't be created or written.
    """

    def __init__(self, folder: Path, log: TransactionLog | None = None) -> None:
        self._path = folder.absolute() / FILE
        self._mutex = threading.Lock()
        self._last_message_ids: dict[str, int] = {}
        self._damage: list[str] = []
        self._lock_file = lock_folder(folder.absolute(), LOCK, STATE)
        self._seals = DatabaseSeal(self._path, is_restored=log is not None)
        try:
            self._connection = self._open_database(log)
            self._commits = GroupCommitter(self._connection, self._seals, self._mutex)
            self.jobs = self._read_jobs()
            """The jobs that the file contained when it was opened, in the order in which they were run."""
            if log is not None:
                start_logging(self._connection, log, self._path, self._damage)
        except BaseException:
            self._seals.close()
            self._lock_file.close()
            raise

    @property
    def damage(self) -> tuple[str, ...]:
        """Descriptions of damaged or missing data, and of the place where the remaining data is stored."""
        return tuple(self._damage)

    @property
    def is_unfinished(self) -> bool:
        """Whether the last change was started but not completed, which the server logs.

        This isn't damage, because the server didn't confirm the change to any client.
        """
        return self._seals.is_unfinished

    def _open_database(self, log: TransactionLog | None) -> sqlite3.Connection:
        is_missing = self._lock_file.read() == _USED and not self._path.exists()
        connection, damage = open_database(self._path, SCHEMA, durable=log is None, log=log)
        if damage is None and is_missing:
            damage = f"{self._path} is missing, although a server has used this folder before"
        if damage is not None:
            self._damage.append(f"{damage}; the jobs in the file are lost")
        self._lock_file.seek(0)
        self._lock_file.write(_USED)
        self._lock_file.flush()
        return connection

    def _read_jobs(self) -> tuple[UnfinishedJob | FinishedJobSummary, ...]:
        connection = self._connection
        rows = connection.execute(
            f"SELECT {IDENTITY}, taken_on, end, end_time, times, item FROM jobs ORDER BY number"
        ).fetchall()
        missing = self._seals.check_content(connection, (row[-1] for row in rows))
        if self._seals.is_unfinished:
            _LOGGER.warning(
                "The last change of %s is missing: the server was killed while it"
                " wrote the change, or the file's log is damaged. The server had not"
                " confirmed the change to any client. The job of the change can be"
                " missing from the list, or be in an earlier state",
                self._path,
            )
        jobs: list[UnfinishedJob | FinishedJobSummary] = []
        reasons: dict[str, str] = {}
        for row in rows:
            try:
                jobs.append(self._restore_job(*row))
            except DamagedData as error:
                reasons[row[0]] = str(error)
        if missing is None and not reasons:
            return tuple(jobs)
        kept = copy_damaged_database(connection, self._path)
        if missing is not None:
            self._damage.append(
                f"{self._path}: {missing}; jobs can be missing from the list, or be in"
                f" an earlier state; a copy of the file is stored as {kept}"
            )
        self._damage.extend(
            f"the record of job {job_id} in {self._path} is damaged ({reason}), and the"
            f" job is lost; a copy of the file is stored as {kept}"
            for job_id, reason in reasons.items()
        )
        with begin_transaction(connection):
            for job_id in reasons:
                delete_rows(connection, job_id)
        found = connection.execute("SELECT item FROM jobs").fetchall()
        self._seals.renew_seal(connection, (item for (item,) in found))
        return tuple(jobs)

    def _restore_job(self, job_id: str, *row: Any) -> UnfinishedJob | FinishedJobSummary:
        """Returns the job of a row of the table.

        Raises:
            DamagedData: the row differs from the recorded data.
        """
        preparation_id, job_name, options_json, owner, artifacts, taken_on, *ended, item = row
        state, time, times = ended
        connection = self._connection
        if compute_job_checksum(connection, job_id) != item:
            raise DamagedData("the checksum doesn't match")
        try:
            options = json.loads(options_json)
            last = None if state is None else StateEvent(JobState(state), float(time))
        except (ValueError, TypeError) as error:
            raise DamagedData(format_exception(error)) from error
        if last is not None:
            size = self._measure_finished_job_size(job_id, options_json)
            told = JobTimes(**json.loads(times))
            known = (job_id, job_name, options, preparation_id, last, told, size)
            if told.program_kept_until is None:
                return FinishedJobSummary(*known)
            return FinishedJobSummary(*known, owner, decode_artifacts(artifacts))
        entries, has_all_messages = read_entries(connection, job_id)
        if not has_all_messages:
            self._damage.append(f"messages of job {job_id} in {self._path} are missing or damaged")
        messages = [entry for entry in entries if isinstance(entry, JobMessage)]
        self._last_message_ids[job_id] = int(messages[-1].message_id) if messages else 0
        spec = JobSpec(
            job_id=job_id,
            job_name=job_name,
            pipeline=read_content(connection, job_id) or b"",
            options=options,
            options_json=options_json,
            artifacts=decode_artifacts(artifacts),
            retrieval_endpoint="",
            user=str((self._read_note(job_id, USER) or {}).get("name", "")),
        )
        errors = make_record(JobErrors, self._read_note(job_id, ERRORS) or {})
        told = (self._read_note(job_id, SERIES) or {}).get("series", ())
        series = tuple(make_record(StageTimeSeries, one) for one in told)
        succession = make_record(Succession, self._read_note(job_id, SUCCESSION) or {})
        notes = (errors, series, succession)
        return UnfinishedJob(spec, preparation_id, owner, entries, bool(taken_on), *notes)

    def _read_note(self, job_id: str, kind: str) -> Any:
        """Returns a note of a job; None if the note is missing, or damaged, which the server logs."""
        try:
            return read_job_note(self._connection, job_id, kind)
        except DamagedData:
            self._damage.append(f"the {kind} of job {job_id} in {self._path} are damaged")
            return None

    def _measure_finished_job_size(self, job_id: str, options_json: str) -> int:
        """Returns the approximate stored size of a finished job in bytes."""
        (size,) = self._connection.execute(
            "SELECT length(content) FROM contents WHERE job_id = ?", (job_id,)
        ).fetchone()
        return int(size) + 2 * len(options_json)

    def add_job(self, job: UnfinishedJob) -> None:
        spec = job.spec
        row = (
            spec.job_id,
            job.preparation_id,
            spec.job_name,
            spec.options_json,
            job.owner,
            encode_artifacts(spec.artifacts),
            NO_JOB,
        )

        def write_rows(connection: sqlite3.Connection, change: Change) -> None:
            connection.execute(
                f"INSERT INTO jobs ({IDENTITY}, item) VALUES (?, ?, ?, ?, ?, ?, ?)", row
            )
            put_content(connection, spec.job_id, spec.pipeline)
            if spec.user:
                put_job_note(connection, spec.job_id, USER, {"name": spec.user})
            for entry in job.entries:
                assert isinstance(entry, StateEvent), "a new job has no messages"
                put_state(connection, spec.job_id, entry, 0)
            update_seal(connection, change, spec.job_id)

        try:
            undo = partial(remove_job, job_id=spec.job_id)
            self._commits.commit_in_time(write_rows, undo, _RECORD_SECONDS)
        except (LogFailed, LogUnavailable) as error:
            raise Unavailable(
                f"Can't start the job, because it can't be recorded: {error}"
            ) from error
        except (sqlite3.Error, OSError) as error:
            full = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
            raise (DiskFull if full else Unavailable)(
                f"Can't start the job, because it can't be recorded in {self._path}: {error}"
            ) from error

    def add_state(self, job_id: str, event: StateEvent) -> None:

        def write_rows(connection: sqlite3.Connection, change: Change) -> None:
            put_state(connection, job_id, event, self._last_message_ids.get(job_id, 0))
            if event.state is JobState.RUNNING:
                connection.execute("UPDATE jobs SET taken_on = 1 WHERE job_id = ?", (job_id,))
            update_seal(connection, change, job_id)

        with self._log_write_errors():
            self._commits.commit_with_retries(write_rows)

    def add_messages(
        self,
        job_id: str,
        messages: Sequence[JobMessage],
        first_message_id: int,
        early_errors: JobErrors,
    ) -> None:
        first, last = (int(messages[place].message_id) for place in (0, -1))

        def write_rows(connection: sqlite3.Connection, _: Change) -> None:
            put_messages(connection, job_id, messages)
            if last // DROPPED_EACH > (first - 1) // DROPPED_EACH:
                if early_errors.through:
                    put_job_note(connection, job_id, ERRORS, early_errors)
                connection.execute(
                    "DELETE FROM history WHERE job_id = ? AND message_id < ? AND state IS NULL",
                    (job_id, first_message_id),
                )

        with self._log_write_errors():
            self._commits.commit_without_sync(write_rows)
        self._last_message_ids[job_id] = last

    def put_stage_series(self, job_id: str, series: Sequence[StageTimeSeries]) -> None:
        self._put_note(job_id, SERIES, {"series": series})

    def put_succession(self, job_id: str, succession: Succession) -> None:
        self._put_note(job_id, SUCCESSION, succession)

    def _put_note(self, job_id: str, kind: str, note: Any) -> None:

        def write_rows(connection: sqlite3.Connection, _: Change) -> None:
            running = "SELECT 1 FROM jobs WHERE job_id = ? AND end IS NULL"
            if connection.execute(running, (job_id,)).fetchone() is not None:
                put_job_note(connection, job_id, kind, note)

        with self._log_write_errors():
            self._commits.commit_without_sync(write_rows)

    def end_job(self, spec: JobSpec, archive: Archive) -> int | None:

        def write_rows(connection: sqlite3.Connection, change: Change) -> int:
            size = replace_content_by_archive(connection, spec.job_id, spec.user, archive)
            size += 2 * len(spec.options_json)
            update_seal(connection, change, spec.job_id)
            return size

        size = None
        with self._log_write_errors():
            size = self._commits.commit_with_retries(write_rows)
        self._last_message_ids.pop(spec.job_id, None)
        return size

    def replace_metrics(self, job_id: str, metrics: JobMetrics) -> None:
        with self._log_write_errors():
            archive = pack_archive(attrs.evolve(self.read_archive(job_id), metrics=metrics))

            def write_rows(connection: sqlite3.Connection, change: Change) -> None:
                put_content(connection, job_id, archive)
                update_seal(connection, change, job_id)

            self._commits.commit_durably(write_rows)

    def read_archive(self, job_id: str) -> Archive:
        try:
            with self._mutex:
                content = read_content(self._connection, job_id)
            if content is None:
                raise NotFound(f"job {job_id!r} was removed from the list of jobs")
            return unpack_archive(content)
        except (sqlite3.Error, DamagedData) as error:
            raise DamagedData(
                f"the record of job {job_id} in {self._path} is damaged ({error})"
            ) from error

    def delete_job(self, job_id: str) -> None:
        with self._log_write_errors():
            self._commits.commit_durably(partial(remove_job, job_id=job_id))

    def stop_retries(self) -> None:
        """Stops all waits for a full or unavailable disk, because the server is stopping."""
        self._commits.stop_retries()

    def close(self) -> None:
        """Releases the folder. Later records are lost. May be called again."""
        with self._mutex:
            self._connection.close()
            self._seals.close()
            self._lock_file.close()

    @contextmanager
    def _log_write_errors(self) -> Iterator[None]:
        """Logs an error of a write within a ``with`` block, so that the server can continue."""
        try:
            yield
        except LogFailed as error:
            _LOGGER.warning(
                "Can't record the progress of jobs; after a restart, the server won't know it: %s",
                error,
            )
        except (sqlite3.Error, OSError, DamagedData, NotFound):
            _LOGGER.exception(
                "Can't write %s; after a restart, the server won't know this change", self._path
            )
