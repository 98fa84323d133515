"""Events and requests that the thread of a running job handles."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

import attrs
from beam_runner_model.replays import ReplayReport
from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_runtime.channel.messages import FromWorker
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.sections.ends import SectionEnd

from beam_runner_driver.ledger.quarantine import QuarantinedFile
from beam_runner_driver.quarantine.quarantine_rows import QuarantineRow
from beam_runner_driver.updates.job_update import JobUpdate
from beam_runner_driver.updates.savepoint_files import SavepointContents


@attrs.frozen
class ProcessMessage:
    """Event: a worker process sent a message."""

    link: WorkerLink
    message: FromWorker


@attrs.frozen
class ProcessLost:
    """Event: a worker process exited, or the server lost the connection to it."""

    link: WorkerLink


@attrs.frozen
class LaneEnded:
    """Event: a lane (a worker process that runs bundles) has ended. `error` is empty after a normal end."""

    number: int
    error: str


@attrs.frozen
class SectionEnded:
    """Event: the Spark job of a section (several stages that run together) has ended."""

    end: SectionEnd


@attrs.frozen
class CancelRequested:
    """Request to cancel the job."""


@attrs.frozen
class DrainRequested:
    """Request to drain the job."""


@attrs.frozen
class SuspendRequested:
    """Request to suspend the job at server shutdown. Another server resumes the job."""


@attrs.frozen
class UpdateRequested:
    """Request to replace the job by another job."""

    update: JobUpdate


@attrs.frozen
class SavepointRequested:
    """Request for the committed state of the job, for a savepoint. The files of the state must stay
    until they are copied.
    """

    answer: Future[SavepointContents]


@attrs.frozen
class QuarantineRequested:
    """Request for the job's list of quarantine files (files of elements, groups and timers that
    always fail), with the contents of each file.
    """

    answer: Future[Mapping[str, QuarantinedFile]]


@attrs.frozen
class ReplayRequested:
    """Request to process quarantined elements (elements that always failed) again; see
    `replay.plan_replay`.
    """

    units: tuple[QuarantineRow, ...]
    expired: bool
    answer: Future[ReplayReport]


@attrs.frozen
class StartPossible:
    """Event: another job has ended, so this job can check again whether it may start."""


Request = UpdateRequested | SavepointRequested | QuarantineRequested | ReplayRequested
"""Request by another thread. That thread waits for the answer."""

Item = (
    ProcessMessage
    | ProcessLost
    | LaneEnded
    | SectionEnded
    | CancelRequested
    | DrainRequested
    | SuspendRequested
    | Request
    | StartPossible
)


def is_loss_event(item: Item) -> bool:
    """Returns whether an event reports the unexpected end of a worker process, or of a Spark job that runs bundles."""
    if isinstance(item, SectionEnded):
        return isinstance(item.end, BundleFailure) and item.end.failure is None
    return isinstance(item, ProcessLost) or (isinstance(item, LaneEnded) and item.error != "")
