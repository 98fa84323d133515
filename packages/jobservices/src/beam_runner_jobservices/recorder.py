"""Interface of a job storage, from which a restarted server restores its jobs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs
from beam_runner_model.jobs import (
    JobMessage,
    JobMetrics,
    JobSpec,
    StagedArtifact,
    StateEvent,
)
from beam_runner_model.observation import JobTimes, StageTimeSeries
from beam_runner_model.successions import Succession

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
        was_running: whether the job has reached the state RUNNING.
        errors: the errors of messages that were dropped.
    """

    spec: JobSpec
    preparation_id: str
    owner: str
    entries: tuple[Entry, ...]
    was_running: bool = False
    errors: JobErrors = attrs.field(factory=JobErrors)
    series: tuple[StageTimeSeries, ...] = ()
    succession: Succession = attrs.field(factory=Succession)


def _pack_options(options: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.dumps(options).encode(), 1)


@attrs.frozen
class FinishedJobSummary:
    """A finished job, as the list of jobs shows it.

    Attributes:
        preparation_id: the id that the job was run with.
        last: its terminal state.
        size: its approximate stored size in bytes.
        owner: the name that holds its artifacts, if the server stored a program for a rollback.
        artifacts: its artifacts by environment id, if the server stored a program for a rollback.
    """

    job_id: str
    job_name: str
    _options: bytes = attrs.field(repr=False, converter=_pack_options)
    preparation_id: str
    last: StateEvent
    times: JobTimes
    size: int
    owner: str = ""
    artifacts: Mapping[str, tuple[StagedArtifact, ...]] = attrs.field(factory=dict, repr=False)

    @property
    def options(self) -> Mapping[str, Any]:
        """Returns the job's pipeline options, unpacked by each call."""
        options: Mapping[str, Any] = json.loads(zlib.decompress(self._options))
        return options


class Recorder(Protocol):
    """Storage of jobs with their states and messages. Thread-safe.

    A method that can't store its data logs the error, except `add_job`, which raises. `add_state` and
    `end_job` wait while a disk is full or a store is unavailable.
    """

    def add_job(self, job: UnfinishedJob) -> None:
        """Stores a new job; returns when the job is durable.

        Raises:
            Unavailable: the job can't be stored.
        """

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

    def put_stage_series(self, job_id: str, series: Sequence[StageTimeSeries]) -> None:
        """Stores the history of the stages of an unfinished job."""

    def put_succession(self, job_id: str, succession: Succession) -> None:
        """Stores the jobs before and after an unfinished job."""

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
    """Job storage in memory, for a server that doesn't resume jobs after a restart. Finished jobs
    are compressed. Implements `Recorder`.
    """

    def __init__(self) -> None:
        self._ended: dict[str, bytes] = {}

    def add_job(self, job: UnfinishedJob) -> None: ...

    def add_state(self, job_id: str, event: StateEvent) -> None: ...

    def add_messages(
        self,
        job_id: str,
        messages: Sequence[JobMessage],
        first_message_id: int,
        early_errors: JobErrors,
    ) -> None: ...

    def put_stage_series(self, job_id: str, series: Sequence[StageTimeSeries]) -> None: ...

    def put_succession(self, job_id: str, succession: Succession) -> None: ...

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
