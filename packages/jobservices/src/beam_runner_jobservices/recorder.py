"""Interface of a storage for jobs that outlives the server."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs
from beam_runner_model.jobs import JobMessage, JobMetrics, JobSpec, StateEvent
from beam_runner_model.observation import JobTimes, StageSeries

from beam_runner_jobservices.archive import Archive, pack_archive, unpack_archive
from beam_runner_jobservices.error_log import JobErrors
from beam_runner_jobservices.errors import NotFound
from beam_runner_jobservices.history import Entry


@attrs.frozen
class UnfinishedJob:
    """A stored job that has not finished.

    Attributes:
        preparation_id: the id that the job was run with; a repeated Run uses it.
        owner: the name that holds its artifacts.
        entries: its states and messages, oldest first.
        taken_on: whether an executor has accepted the job.
        errors: the errors of messages that were dropped.
        series: the history of its stages.
    """

    spec: JobSpec
    preparation_id: str
    owner: str
    entries: tuple[Entry, ...]
    taken_on: bool = False
    errors: JobErrors = attrs.field(factory=JobErrors)
    series: tuple[StageSeries, ...] = ()


def _pack_options(options: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.dumps(options).encode(), 1)


@attrs.frozen
class FinishedJobSummary:
    """A finished job, as the list of jobs shows it.

    Attributes:
        preparation_id: the id that the job was run with.
        last: its terminal state.
        times: the times of its states.
        size: its approximate stored size in bytes.
    """

    job_id: str
    job_name: str
    _options: bytes = attrs.field(repr=False, converter=_pack_options)
    preparation_id: str
    last: StateEvent
    times: JobTimes
    size: int

    @property
    def options(self) -> Mapping[str, Any]:
        """Returns the job's pipeline options, unpacked by each call."""
        options: Mapping[str, Any] = json.loads(zlib.decompress(self._options))
        return options


class Recorder(Protocol):
    """A storage for jobs. Thread-safe.

    A method that can't store its data logs the error, except `add_job`, which raises. `mark_accepted`,
    `add_state` and `end_job` wait while a disk is full or a store is unavailable.
    """

    def add_job(self, job: UnfinishedJob) -> None:
        """Stores a new job; returns when the job is durable.

        Raises:
            Unavailable: the job can't be stored.
        """

    def mark_accepted(self, job_id: str) -> None:
        """Stores that an executor has accepted the job; returns when that is durable."""

    def add_state(self, job_id: str, event: StateEvent) -> None:
        """Stores the state that the job is about to enter; returns when that is durable."""

    def add_messages(
        self,
        job_id: str,
        messages: Sequence[JobMessage],
        first_message_id: int,
        early_errors: JobErrors,
    ) -> None:
        """Stores new messages of the job, with consecutive ids, and drops the messages before
        `first_message_id`.

        `early_errors` contains the errors of the dropped messages. A call takes well under 1 ms and
        another 0.01 ms for each message. The messages survive the end of the process, but not a
        crash of the machine.
        """

    def put_series(self, job_id: str, series: Sequence[StageSeries]) -> None:
        """Stores the history of the stages of an unfinished job."""

    def end_job(self, spec: JobSpec, archive: Archive) -> int | None:
        """Stores the terminal state, which is the last of the archive's entries; returns when that is
        durable.

        Returns the approximate stored size in bytes; None if `read_archive` can't return more than the job
        list.
        """

    def replace_metrics(self, job_id: str, metrics: JobMetrics) -> None:
        """Replaces the final metrics of a finished job."""

    def read_archive(self, job_id: str) -> Archive:
        """Returns all stored data of a finished job.

        Raises:
            NotFound: no data is stored.
            DamagedData: the stored data is damaged.
        """

    def delete_job(self, job_id: str) -> None:
        """Deletes a job."""


class InMemoryRecorder:
    """A storage in memory: jobs live as long as the server, and finished jobs are packed. Implements `Recorder`."""

    def __init__(self) -> None:
        self._ended: dict[str, bytes] = {}

    def add_job(self, job: UnfinishedJob) -> None: ...

    def mark_accepted(self, job_id: str) -> None: ...

    def add_state(self, job_id: str, event: StateEvent) -> None: ...

    def add_messages(
        self,
        job_id: str,
        messages: Sequence[JobMessage],
        first_message_id: int,
        early_errors: JobErrors,
    ) -> None: ...

    def put_series(self, job_id: str, series: Sequence[StageSeries]) -> None: ...

    def end_job(self, spec: JobSpec, archive: Archive) -> int | None:
        packed = pack_archive(archive)
        self._ended[spec.job_id] = packed
        return len(packed) + 2 * len(spec.options_json)

    def replace_metrics(self, job_id: str, metrics: JobMetrics) -> None:
        self._ended[job_id] = pack_archive(attrs.evolve(self.read_archive(job_id), metrics=metrics))

    def read_archive(self, job_id: str) -> Archive:
        packed = self._ended.get(job_id)
        if packed is None:
            raise NotFound(f"job {job_id!r} was removed from the list of jobs")
        return unpack_archive(packed)

    def delete_job(self, job_id: str) -> None:
        self._ended.pop(job_id, None)
