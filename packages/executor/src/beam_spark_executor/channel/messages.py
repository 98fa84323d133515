"""The messages of the channel.

They are pickled: both ends are this package in the same version, and nobody reads a byte of a peer
that has not shown the server's token before.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from beam_runner_engine.values.strategy import WindowingStrategy
from beam_runner_worker.records import LogRecord, MonitoringInfo

from beam_spark_executor.plan import BufferKind, StagePlan
from beam_spark_executor.task.files import Piece
from beam_spark_executor.task.rows import TaskFailure


@attrs.frozen
class Endpoint:
    """Where the server's channel is, and what opens it."""

    address: str
    token: str = attrs.field(repr=False)


@attrs.frozen
class TaskName:
    """One attempt at one task, unique while the Spark application lives."""

    section: str
    stage_id: str
    partition: int
    attempt: int


# From a worker process to the server.


@attrs.frozen
class Hello:
    """A process begins to work for a job; always the first message."""

    job_id: str
    host: str
    pid: int


@attrs.frozen
class Progress:
    """Metrics of a running task so far."""

    task: TaskName
    metrics: tuple[MonitoringInfo, ...]


@attrs.frozen
class Logged:
    """What user code and SDKs have logged."""

    records: tuple[LogRecord, ...]


@attrs.frozen
class UserCodeFailed:
    """A bundle failed in user code: the job can't succeed any more."""

    task: TaskName
    failure: TaskFailure


@attrs.frozen
class TaskBroke:
    """A task failed from outside user code; Spark will try it again, within its limit."""

    task: TaskName
    reason: str


@attrs.frozen
class ExternalWorkerStarted:
    """A worker pool outside was asked for an SDK harness, which must be stopped with the job."""

    endpoint: str
    worker_id: str


@attrs.frozen
class Closed:
    """All DoFns are torn down, and there is nothing more to say; the process waits for Goodbye."""


FromWorker = Hello | Progress | Logged | UserCodeFailed | TaskBroke | ExternalWorkerStarted | Closed


# From the server to a worker process.


@attrs.frozen
class EndJob:
    """Tear down, then say so."""


@attrs.frozen
class Abort:
    """Exit at once, whatever user code is doing."""


@attrs.frozen
class Goodbye:
    """All was heard: exit. The stream stays open, so that its end is the end of the process."""


FromServer = EndJob | Abort | Goodbye


# What a worker process asks for.


@attrs.frozen
class StageWork:
    """What the tasks of one stage in one attempt at its section do.

    Attributes:
        stage: the stage.
        input_kind: the kind of its input buffer; None for an impulse.
        strategy: how to group, if its input is grouped.
        output_kinds: the kind of every output's buffer, by the output's transform id.
        streams_output: whether its rows go on through Spark; else they go to files.
        shards: the number of tasks that read a shuffle.
        pieces: for each task the pieces of files to read, where the input is stored.
        side_inputs: the files of every side-input buffer.
        folder: where files are written.
    """

    stage: StagePlan
    input_kind: BufferKind | None
    strategy: WindowingStrategy | None
    output_kinds: Mapping[str, BufferKind]
    streams_output: bool
    shards: int
    pieces: tuple[tuple[Piece, ...], ...]
    side_inputs: Mapping[str, tuple[Piece, ...]]
    folder: str
