"""What keeps jobs beyond the life of the server, as the jobs and their registry see it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs
from beam_runner_model.jobs import JobMessage, JobMetrics, JobSpec, StateEvent
from beam_runner_model.observation import JobTimes, StageSeries

from beam_runner_jobservices.archive import Archive, pack, unpack
from beam_runner_jobservices.error_log import Errors
from beam_runner_jobservices.errors import NotFound
from beam_runner_jobservices.history import Entry


@attrs.frozen
class KeptJob:
    """A job that has not ended, as it is kept.

    - `preparation_id`: what it was run as; a repeated Run asks with it.
    - `owner`: the name that holds its artifacts.
    - `entries`: its states and messages, oldest first.
    - `taken_on`: whether an executor has taken it on.
    - `errors`: those of messages that are not kept any more.
    - `series`: how its stages were getting on.
    """

    spec: JobSpec
    preparation_id: str
    owner: str
    entries: tuple[Entry, ...]
    taken_on: bool = False
    errors: Errors = attrs.field(factory=Errors)
    series: tuple[StageSeries, ...] = ()


def _packed(options: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.dumps(options).encode(), 1)


@attrs.frozen
class EndedJob:
    """A job that has ended, as the list of jobs shows it.

    - `preparation_id`: what it was run as.
    - `last`: its terminal state; `times`: of it and others before.
    - `size`: about how many bytes are kept of it.
    """

    job_id: str
    job_name: str
    _options: bytes = attrs.field(repr=False, converter=_packed)
    preparation_id: str
    last: StateEvent
    times: JobTimes
    size: int

    @property
    def options(self) -> Mapping[str, Any]:
        """Its pipeline options, which are unpacked each time."""
        options: Mapping[str, Any] = json.loads(zlib.decompress(self._options))
        return options


class Recorder(Protocol):
    """Keeps jobs. Thread-safe. A method that cannot keep what it is given says so in the log, except
    `add`. `taken_on`, `state` and `end` wait while a disk is full, or a store is away.
    """

    def add(self, job: KeptJob) -> None:
        """Keep a new job; returns when it is durable.

        Raises:
            Unavailable: it cannot be kept.
        """

    def taken_on(self, job_id: str) -> None:
        """An executor has taken the job on; returns when that is durable."""

    def state(self, job_id: str, event: StateEvent) -> None:
        """The job is about to enter a state; returns when that is durable."""

    def messages(
        self,
        job_id: str,
        messages: Sequence[JobMessage],
        first_message_id: int,
        early_errors: Errors,
    ) -> None:
        """The job has more messages, with ids that follow each other, and none before
        `first_message_id` any more; the errors among those are in `early_errors`.

        Takes well under a millisecond and a hundredth of one for each message; survives the end of
        the process, not that of the machine.
        """

    def series(self, job_id: str, series: Sequence[StageSeries]) -> None:
        """The stages of a job that has not ended have been getting on like this."""

    def end(self, spec: JobSpec, archive: Archive) -> int | None:
        """The job is about to enter its terminal state, the last of the archive's entries; returns when
        that is durable.

        Returns about how many bytes are kept of it from now on; None where `read` can't tell more.
        """

    def metrics(self, job_id: str, metrics: JobMetrics) -> None:
        """The job that has ended has other final metrics."""

    def read(self, job_id: str) -> Archive:
        """All that is kept of a job that has ended.

        Raises:
            NotFound: nothing is.
            Damaged: it is not what was kept.
        """

    def forget(self, job_id: str) -> None:
        """The job is not remembered any longer."""


class Unrecorded:
    """Jobs live as long as the server, those that have ended packed in its memory. Implements
    `Recorder`.
    """

    def __init__(self) -> None:
        self._ended: dict[str, bytes] = {}

    def add(self, job: KeptJob) -> None: ...

    def taken_on(self, job_id: str) -> None: ...

    def state(self, job_id: str, event: StateEvent) -> None: ...

    def messages(
        self,
        job_id: str,
        messages: Sequence[JobMessage],
        first_message_id: int,
        early_errors: Errors,
    ) -> None: ...

    def series(self, job_id: str, series: Sequence[StageSeries]) -> None: ...

    def end(self, spec: JobSpec, archive: Archive) -> int | None:
        packed = pack(archive)
        self._ended[spec.job_id] = packed
        return len(packed) + 2 * len(spec.options_json)

    def metrics(self, job_id: str, metrics: JobMetrics) -> None:
        self._ended[job_id] = pack(attrs.evolve(self.read(job_id), metrics=metrics))

    def read(self, job_id: str) -> Archive:
        packed = self._ended.get(job_id)
        if packed is None:
            raise NotFound(f"job {job_id!r} has been forgotten")
        return unpack(packed)

    def forget(self, job_id: str) -> None:
        self._ended.pop(job_id, None)
