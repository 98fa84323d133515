"""What keeps jobs beyond the life of the server, as the jobs and their registry see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from .history import Entry
from .records import JobMessage, JobMetrics, JobSpec, StateEvent


@attrs.frozen
class KeptJob:
    """A job as it is kept.

    - `preparation_id`: what it was run as; a repeated Run asks with it.
    - `owner`: the name that holds its artifacts.
    - `entries`: its states and messages, oldest first.
    - `taken_on`: whether an executor has taken it on.
    - `metrics`: the final ones, once the job has ended.
    """

    spec: JobSpec
    preparation_id: str
    owner: str
    entries: tuple[Entry, ...]
    taken_on: bool = False
    metrics: JobMetrics = attrs.field(factory=JobMetrics, repr=False)

    @property
    def last(self) -> StateEvent:
        """The job's state."""
        return next(entry for entry in reversed(self.entries) if isinstance(entry, StateEvent))


class Recorder(Protocol):
    """Keeps jobs. Thread-safe. A method that cannot keep what it is given says so in the log, except
    `add`.
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

    def messages(self, job_id: str, messages: Sequence[JobMessage], first_message_id: int) -> None:
        """The job has more messages, with ids that follow each other, and none before
        `first_message_id` any more.

        Takes well under a millisecond and a hundredth of one for each message; survives the end of
        the process, not that of the machine.
        """

    def metrics(self, job_id: str, metrics: JobMetrics) -> None:
        """The job's final metrics."""

    def forget(self, job_id: str) -> None:
        """The job is not remembered any longer."""


class Unrecorded:
    """Keeps nothing: jobs live as long as the server. Implements `Recorder`."""

    def add(self, job: KeptJob) -> None: ...

    def taken_on(self, job_id: str) -> None: ...

    def state(self, job_id: str, event: StateEvent) -> None: ...

    def messages(
        self, job_id: str, messages: Sequence[JobMessage], first_message_id: int
    ) -> None: ...

    def metrics(self, job_id: str, metrics: JobMetrics) -> None: ...

    def forget(self, job_id: str) -> None: ...
