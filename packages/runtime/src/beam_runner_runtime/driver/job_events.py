"""Events of a running job, for the job's thread."""

from __future__ import annotations

import attrs

from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_runtime.channel.messages import FromWorker
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.sections.ends import SectionEnd


@attrs.frozen
class ProcessMessage:
    """Event with a message that a worker process sent."""

    link: WorkerLink
    message: FromWorker


@attrs.frozen
class ProcessLost:
    """Event: a worker process exited, or the server lost the connection to it."""

    link: WorkerLink


@attrs.frozen
class LaneEnded:
    """End of a lane. `error` is empty after a normal end."""

    number: int
    error: str


@attrs.frozen
class SectionEnded:
    """Event with the result of an attempt at a section."""

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
class StartPossible:
    """Signal that the job can check again whether it may start."""


Item = (
    ProcessMessage
    | ProcessLost
    | LaneEnded
    | SectionEnded
    | CancelRequested
    | DrainRequested
    | SuspendRequested
    | StartPossible
)


def is_loss_event(item: Item) -> bool:
    """Returns whether an item reports the unexpected end of a process, or of the Spark job that runs bundles."""
    if isinstance(item, SectionEnded):
        return isinstance(item.end, BundleFailure) and item.end.failure is None
    return isinstance(item, ProcessLost) or (isinstance(item, LaneEnded) and item.error != "")
