"""The jobs of a server in a SQLite file, from which the next server goes on."""

from __future__ import annotations

import base64
import json
import logging
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from .databases import (
    DatabaseDamaged,
    Schema,
    name_aside,
    open_database,
    transaction,
)
from .errors import Unavailable
from .folders import STATE, hold_folder
from .history import Entry
from .recorder import KeptJob
from .records import Artifact, Importance, JobMessage, JobMetrics, JobSpec, JobState, StateEvent
from .texts import one_line
from .wire.jobs import metrics_bytes, metrics_of_bytes

_MESSAGES_PER_SWEEP = 1000
_LOGGER = logging.getLogger(__name__)

FILE = "jobs.sqlite"
LOCK = "jobs.lock"

_SCHEMA = Schema(
    1,
    """
    CREATE TABLE jobs (
        job_id TEXT PRIMARY KEY, checksum INTEGER NOT NULL, preparation_id TEXT NOT NULL,
        owner TEXT NOT NULL, job_name TEXT NOT NULL, options TEXT NOT NULL, artifacts TEXT NOT NULL,
        pipeline BLOB NOT NULL, taken_on INTEGER NOT NULL DEFAULT 0, metrics BLOB
    );
    CREATE TABLE history (
        number INTEGER PRIMARY KEY, job_id TEXT NOT NULL, time NOT NULL, state INTEGER,
        message_id INTEGER, importance INTEGER, text TEXT
    );
    CREATE INDEX history_of_job ON history (job_id, number);
    """,
)
_COLUMNS = "job_id, checksum, preparation_id, owner, job_name, options, artifacts, pipeline"


class JobFile:
    """The jobs kept in `folder`, which is made if it is not there. Implements `Recorder`.

    What is damaged is set aside: the whole file if SQLite cannot read it, else a copy of it, and the
    damaged jobs are taken out. `damage` says in sentences what was.

    Raises:
        JobServicesError: another server uses the folder, another version wrote the file, or the
            folder is not ours, see `folders`.
        OSError: the folder cannot be made or written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder.absolute() / FILE
        self._mutex = threading.Lock()
        self._lock_file = hold_folder(folder.absolute(), LOCK, STATE)
        try:
            self._connection, damage = open_database(self._path, _SCHEMA, durable=True)
        except BaseException:
            self._lock_file.close()
            raise
        damages = [] if damage is None else [f"{damage}; the jobs in it are not known any more"]
        self.jobs, damaged = self._read()
        """The jobs that were there when the file was opened, in the order in which they were run."""
        self.damage = (*damages, *damaged)

    def _read(self) -> tuple[tuple[KeptJob, ...], tuple[str, ...]]:
        jobs, reasons = [], {}
        rows = self._connection.execute(
            f"SELECT {_COLUMNS}, taken_on, metrics FROM jobs ORDER BY rowid"
        ).fetchall()
        for row in rows:
            try:
                jobs.append(self._kept_job(row))
            except DatabaseDamaged as error:
                reasons[row[0]] = str(error)
        if not reasons:
            return tuple(jobs), ()
        kept = name_aside(self._path)
        self._connection.execute("VACUUM INTO ?", (str(kept),))
        for job_id in reasons:
            self.forget(job_id)
        return tuple(jobs), tuple(
            f"what is kept of job {job_id} in {self._path} is damaged ({reason}), and the job is not"
            f" known any more; a copy is kept as {kept}"
            for job_id, reason in reasons.items()
        )

    def _kept_job(self, row: tuple[Any, ...]) -> KeptJob:
        *content, taken_on, metrics = row
        job_id, checksum, preparation_id, owner, name, options, artifacts, pipeline = content
        if checksum != _checksum(job_id, preparation_id, owner, name, options, artifacts, pipeline):
            raise DatabaseDamaged("it has another checksum")
        history = self._connection.execute(
            "SELECT time, state, message_id, importance, text FROM history WHERE job_id = ?"
            " ORDER BY number",
            (job_id,),
        )
        try:
            entries = tuple(_entry(*columns) for columns in history)
            final = JobMetrics() if metrics is None else metrics_of_bytes(metrics)
        except (TypeError, ValueError) as error:
            raise DatabaseDamaged(one_line(error)) from error
        if not any(isinstance(entry, StateEvent) for entry in entries):
            raise DatabaseDamaged("it has no state")
        spec = JobSpec(
            job_id=job_id,
            job_name=name,
            pipeline=pipeline,
            options=json.loads(options),
            options_json=options,
            artifacts=_artifacts(artifacts),
            retrieval_endpoint="",
        )
        return KeptJob(spec, preparation_id, owner, entries, bool(taken_on), final)

    def add(self, job: KeptJob) -> None:
        """See `Recorder.add`."""
        spec = job.spec
        content = (
            job.preparation_id,
            job.owner,
            spec.job_name,
            spec.options_json,
            _artifacts_text(spec.artifacts),
            spec.pipeline,
        )
        try:
            with self._transaction(durable=True) as connection:
                connection.execute(
                    f"INSERT INTO jobs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (spec.job_id, _checksum(spec.job_id, *content), *content),
                )
                for entry in job.entries:
                    _insert(connection, spec.job_id, entry)
        except sqlite3.Error as error:
            raise Unavailable(
                f"the job was not started, because it could not be recorded in {self._path}: {error}"
            ) from error

    def taken_on(self, job_id: str) -> None:
        """See `Recorder.taken_on`."""
        self._execute("UPDATE jobs SET taken_on = 1 WHERE job_id = ?", job_id, durable=True)

    def state(self, job_id: str, event: StateEvent) -> None:
        """See `Recorder.state`."""
        self._execute(_INSERT_STATE, job_id, event.time, event.state.value, durable=True)

    def messages(self, job_id: str, messages: Sequence[JobMessage], first_message_id: int) -> None:
        """See `Recorder.messages`."""
        try:
            with self._transaction(durable=False) as connection:
                rows = ((job_id, *_columns(message)) for message in messages)
                connection.executemany(_INSERT_MESSAGE, rows)
        except sqlite3.Error:
            self._tell_unwritten()
        first, last = (int(messages[place].message_id) for place in (0, -1))
        if last // _MESSAGES_PER_SWEEP > (first - 1) // _MESSAGES_PER_SWEEP:
            self._execute(
                "DELETE FROM history WHERE job_id = ? AND message_id < ?",
                job_id,
                first_message_id,
            )

    def metrics(self, job_id: str, metrics: JobMetrics) -> None:
        """See `Recorder.metrics`."""
        self._execute(
            "UPDATE jobs SET metrics = ? WHERE job_id = ?", metrics_bytes(metrics), job_id
        )

    def forget(self, job_id: str) -> None:
        """See `Recorder.forget`."""
        self._execute("DELETE FROM jobs WHERE job_id = ?", job_id)
        self._execute("DELETE FROM history WHERE job_id = ?", job_id)

    def close(self) -> None:
        """Give up the folder. What is recorded afterwards is not kept. May be called again."""
        with self._mutex:
            self._connection.close()
            self._lock_file.close()

    def _execute(self, statement: str, *values: object, durable: bool = False) -> None:
        try:
            with self._transaction(durable) as connection:
                connection.execute(statement, values)
        except sqlite3.Error:
            self._tell_unwritten()

    def _tell_unwritten(self) -> None:
        _LOGGER.exception("%s cannot be written; a restart will not know of it", self._path)

    @contextmanager
    def _transaction(self, durable: bool) -> Iterator[sqlite3.Connection]:
        """One transaction; with `durable` it, and all before it, are on the disk at the end."""
        with self._mutex:
            connection = self._connection
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            with transaction(connection):
                yield connection


_INSERT_STATE = "INSERT INTO history (job_id, time, state) VALUES (?, ?, ?)"
_INSERT_MESSAGE = (
    "INSERT INTO history (job_id, time, message_id, importance, text) VALUES (?, ?, ?, ?, ?)"
)


def _insert(connection: sqlite3.Connection, job_id: str, entry: Entry) -> None:
    if isinstance(entry, StateEvent):
        connection.execute(_INSERT_STATE, (job_id, entry.time, entry.state.value))
    else:
        connection.execute(_INSERT_MESSAGE, (job_id, *_columns(entry)))


def _columns(message: JobMessage) -> tuple[str, int, int, str]:
    return message.time, int(message.message_id), message.importance.value, message.text


def _entry(time: Any, state: int | None, message_id: Any, importance: Any, text: Any) -> Entry:
    if state is not None:
        return StateEvent(JobState(state), float(time))
    return JobMessage(str(int(message_id)), str(time), Importance(importance), str(text))


def _checksum(*content: str | bytes) -> int:
    checksum = 0
    for part in content:
        data = part.encode() if isinstance(part, str) else part
        checksum = zlib.crc32(data, zlib.crc32(b"%d" % len(data), checksum))
    return checksum


def _artifacts_text(artifacts: Mapping[str, tuple[Artifact, ...]]) -> str:
    return json.dumps(
        {
            environment_id: [
                {
                    **attrs.asdict(artifact),
                    "role_payload": base64.b64encode(artifact.role_payload).decode(),
                }
                for artifact in found
            ]
            for environment_id, found in artifacts.items()
        }
    )


def _artifacts(text: str) -> dict[str, tuple[Artifact, ...]]:
    return {
        environment_id: tuple(
            Artifact(**{**found, "role_payload": base64.b64decode(found["role_payload"])})
            for found in artifacts
        )
        for environment_id, artifacts in json.loads(text).items()
    }
