"""Tables of the SQLite file with a server's jobs, and the checksum of a job's rows.

The file has a seal: a separate file with checksums, by which the server detects lost rows. The seal
contains a checksum for each job, of all durable data of the job. Large data is in a separate table,
so that the list of jobs can be read without it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from beam_runner_model.jobs import (
    Importance,
    JobMessage,
    JobState,
    MessageRecord,
    StagedArtifact,
    StateEvent,
)
from beam_runner_model.observation import JobTimes
from beam_runner_storage.durable.databases import DatabaseSchema
from beam_runner_storage.durable.seals import SEAL_TABLE, Change

from beam_runner_jobservices.archive import Archive, pack_archive
from beam_runner_jobservices.errors import DamagedData
from beam_runner_jobservices.history import Entry, find_last_error
from beam_runner_jobservices.message_records import decode_record, encode_record
from beam_runner_jobservices.observation_json import decode_json, encode_json
from beam_runner_jobservices.texts import format_exception

_TABLES = (
    """
    CREATE TABLE jobs (
        number INTEGER PRIMARY KEY, job_id TEXT NOT NULL UNIQUE, preparation_id TEXT NOT NULL,
        job_name TEXT NOT NULL, options TEXT NOT NULL, owner TEXT NOT NULL, artifacts TEXT NOT NULL,
        taken_on INTEGER NOT NULL DEFAULT 0, end INTEGER, end_time REAL, times TEXT,
        item INTEGER NOT NULL
    )
    """,
    # The pipeline of an unfinished job, or the archive of a finished job.
    """
    CREATE TABLE contents (
        job_id TEXT PRIMARY KEY, checksum INTEGER NOT NULL, content BLOB NOT NULL
    )
    """,
    # States and messages of unfinished jobs only. A state refers to the number of the last message
    # before the state. The origin of a message is its transform, worker and record as JSON, or NULL
    # if the message has none of them.
    """
    CREATE TABLE history (
        number INTEGER PRIMARY KEY, job_id TEXT NOT NULL, time NOT NULL, state INTEGER,
        message_id INTEGER, importance INTEGER, text TEXT, checksum INTEGER, origin TEXT
    )
    """,
    "CREATE INDEX history_of_job ON history (job_id, number)",
    # Only for unfinished jobs: reports of a job other than states and messages, as compressed JSON.
    """
    CREATE TABLE notes (
        job_id TEXT NOT NULL, kind TEXT NOT NULL, checksum INTEGER NOT NULL, content BLOB NOT NULL,
        PRIMARY KEY (job_id, kind)
    )
    """,
)
ERRORS, SERIES, SUCCESSION, USER = "errors", "series", "succession", "user"
IDENTITY = "job_id, preparation_id, job_name, options, owner, artifacts"
_HISTORY = (
    "SELECT state, checksum, time, message_id, importance, text, origin FROM history WHERE job_id "
    "= ?"
    " ORDER BY number"
)
DROPPED_EACH = 1000
"""The number of new messages after which the table drops old messages."""

NO_JOB = -1
"""The job number of a row that has just been created."""


def compute_job_checksum(connection: sqlite3.Connection, job_id: str) -> int:
    """Computes the checksum of all durable data of a job from the tables.

    Raises:
        DamagedData: a part of the job is missing.
    """
    row = connection.execute(
        f"SELECT {IDENTITY}, taken_on, end, end_time, times FROM jobs WHERE job_id = ?", (job_id,)
    ).fetchone()
    content = connection.execute(
        "SELECT checksum, length(content) FROM contents WHERE job_id = ?", (job_id,)
    ).fetchone()
    if content is None:
        raise DamagedData("the pipeline is missing")
    states = connection.execute(
        "SELECT time, state, message_id FROM history WHERE job_id = ? AND state IS NOT NULL"
        " ORDER BY number",
        (job_id,),
    ).fetchall()
    digest = hashlib.blake2b(repr((row, content, states)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 2


def update_seal(connection: sqlite3.Connection, change: Change, job_id: str) -> None:
    """Updates the job's checksum in the seal (the checksum file), within the transaction that
    changes the job.
    """
    row = connection.execute("SELECT item FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    if row is None:
        return
    (before,) = row
    after = compute_job_checksum(connection, job_id)
    connection.execute("UPDATE jobs SET item = ? WHERE job_id = ?", (after, job_id))
    change(None if before == NO_JOB else before, after)


def remove_job(connection: sqlite3.Connection, change: Change, job_id: str) -> None:
    """Deletes a job, and removes the job's checksum from the seal; does nothing for an unknown job."""
    row = connection.execute("SELECT item FROM jobs WHERE job_id = ?", (job_id,)).fetchone()
    if row is not None:
        delete_rows(connection, job_id)
        change(row[0], None)


def delete_rows(connection: sqlite3.Connection, job_id: str) -> None:
    """Deletes all rows of a job, and doesn't change the seal."""
    for table in ("jobs", "contents", "history", "notes"):
        connection.execute(f"DELETE FROM {table} WHERE job_id = ?", (job_id,))


def put_content(connection: sqlite3.Connection, job_id: str, content: bytes) -> None:
    """Stores the pipeline of a job that begins, or the archive of a job that ends."""
    connection.execute(
        "REPLACE INTO contents VALUES (?, ?, ?)", (job_id, zlib.crc32(content), content)
    )


def read_content(connection: sqlite3.Connection, job_id: str) -> bytes | None:
    """Returns the last content that `put_content` stored, or None.

    Raises:
        DamagedData: the content differs from the stored content.
    """
    return _read_verified_content(connection, "contents WHERE job_id = ?", job_id)


def put_job_note(connection: sqlite3.Connection, job_id: str, kind: str, note: Any) -> None:
    """Stores a note (such as the time series of stages) about an unfinished job, in place of the
    previous note of the same kind.
    """
    content = zlib.compress(encode_json(note), 1)
    connection.execute(
        "REPLACE INTO notes VALUES (?, ?, ?, ?)", (job_id, kind, zlib.crc32(content), content)
    )


def read_job_note(connection: sqlite3.Connection, job_id: str, kind: str) -> Any:
    """Returns the latest note of one kind about a job, as a mapping; None if none exists.

    Raises:
        DamagedData: the note differs from the stored note.
    """
    content = _read_verified_content(
        connection, "notes WHERE job_id = ? AND kind = ?", job_id, kind
    )
    return None if content is None else decode_json(zlib.decompress(content))


def _read_verified_content(connection: sqlite3.Connection, where: str, *key: str) -> bytes | None:
    """Returns the content of a row; None if the row doesn't exist."""
    row = connection.execute(f"SELECT checksum, content FROM {where}", key).fetchone()
    if row is None:
        return None
    checksum, content = row
    if not isinstance(content, bytes) or zlib.crc32(content) != checksum:
        raise DamagedData("the checksum doesn't match")
    return content


def put_state(
    connection: sqlite3.Connection, job_id: str, event: StateEvent, last_message_id: int
) -> None:
    """Appends a state to the history of an unfinished job."""
    connection.execute(
        "INSERT INTO history (job_id, state, time, message_id) VALUES (?, ?, ?, ?)",
        (job_id, event.state.value, event.time, last_message_id),
    )


def put_messages(
    connection: sqlite3.Connection, job_id: str, messages: Iterable[JobMessage]
) -> None:
    """Appends messages to the history of an unfinished job."""
    contents = (
        (
            message.time,
            int(message.message_id),
            message.importance.value,
            message.text,
            _encode_origin(message),
        )
        for message in messages
    )
    connection.executemany(
        "INSERT INTO history (job_id, checksum, time, message_id, importance, text, origin)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        ((job_id, _compute_message_checksum(content), *content) for content in contents),
    )


def _encode_origin(message: JobMessage) -> str | None:
    found = [message.transform, message.worker]
    if message.record is not None:
        found.append(encode_record(message.record))
    return json.dumps(found) if any(found) else None


def read_entries(connection: sqlite3.Connection, job_id: str) -> tuple[tuple[Entry, ...], bool]:
    """Returns the history of an unfinished job, and whether all messages are present and unchanged.

    Missing messages after the last state can go unnoticed.

    Raises:
        DamagedData: an entry is malformed.
    """
    entries: list[Entry] = []
    numbers, told, whole = [], 0, True
    for state, checksum, *content in connection.execute(_HISTORY, (job_id,)):
        time, message_id, importance, text, origin = content
        try:
            if state is not None:
                entries.append(StateEvent(JobState(state), float(time)))
                told = max(told, int(message_id))
                continue
            whole = whole and checksum == _compute_message_checksum(tuple(content))
            numbers.append(int(message_id))
            entries.append(
                JobMessage(
                    str(numbers[-1]),
                    str(time),
                    Importance(importance),
                    str(text),
                    *_decode_origin(origin),
                )
            )
        except (TypeError, ValueError, LookupError) as error:
            raise DamagedData(format_exception(error)) from error
    if not any(isinstance(entry, StateEvent) for entry in entries):
        raise DamagedData("the job's row has no state")
    return tuple(entries), whole and _are_messages_complete(numbers, told)


def _decode_origin(text: str | None) -> tuple[str, str, MessageRecord]:
    """Returns the transform, worker and record of a job message, which `_encode_origin` encoded."""
    transform, worker, *record = json.loads(text) if text else ("", "")
    return str(transform), str(worker), decode_record(record[0]) if record else None


def _compute_message_checksum(content: tuple[Any, ...]) -> int:
    """Returns the checksum of a message. If the message has an origin, the checksum includes the
    origin.
    """
    known = content if content[-1] is not None else content[:-1]
    return zlib.crc32(repr(known).encode("utf-8", "replace"))


def _are_messages_complete(numbers: list[int], told: int) -> bool:
    """Returns whether all messages are present: their numbers are consecutive, and include the
    number that a later state refers to.
    """
    if not numbers:
        return not told
    first, last = numbers[0], numbers[-1]
    begins = first == 1 or last >= DROPPED_EACH
    return begins and last >= told and numbers == list(range(first, last + 1))


def encode_artifacts(artifacts: Mapping[str, tuple[StagedArtifact, ...]]) -> str:
    """Returns the artifacts of each environment as JSON."""
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


def decode_artifacts(text: str) -> dict[str, tuple[StagedArtifact, ...]]:
    """Returns the artifacts that `encode_artifacts` encoded."""
    return {
        environment_id: tuple(
            StagedArtifact(**{**found, "role_payload": base64.b64decode(found["role_payload"])})
            for found in artifacts
        )
        for environment_id, artifacts in json.loads(text).items()
    }


def replace_content_by_archive(
    connection: sqlite3.Connection, job_id: str, user: str, archive: Archive
) -> int:
    """Replaces the table rows of an ending job by an archive of the job. Returns the archive's size
    in bytes.
    """
    states = [entry for entry in archive.entries if isinstance(entry, StateEvent)]
    times = JobTimes.from_states(
        job_id, states, find_last_error(archive.entries), user, archive.succession
    )
    connection.execute(
        "UPDATE jobs SET end = ?, end_time = ?, times = ?,"
        " artifacts = CASE WHEN ? THEN artifacts ELSE '{}' END WHERE job_id = ?",
        (
            states[-1].state.value,
            states[-1].time,
            json.dumps(attrs.asdict(times, filter=_is_stored_field)),
            times.program_kept_until is not None,
            job_id,
        ),
    )
    packed = pack_archive(archive)
    put_content(connection, job_id, packed)
    for table in ("history", "notes"):
        connection.execute(f"DELETE FROM {table} WHERE job_id = ?", (job_id,))
    return len(packed)


_LATER_FIELDS = frozenset({"user", "predecessor", "successor", "program_kept_until"})
SCHEMA = DatabaseSchema(4, ";".join((*_TABLES, SEAL_TABLE)))


def _is_stored_field(field: attrs.Attribute[object], value: object) -> bool:
    """Returns whether the server stores a field of `JobTimes`. The runner knows `kept_until`.

    Empty fields that older versions don't know are omitted, so that those versions can read the job.
    """
    return field.name != "kept_until" and (field.name not in _LATER_FIELDS or bool(value))
