"""Records of failed bundles and of the reasons for which jobs fail, shared by all packages."""

from __future__ import annotations

import enum

import attrs

from beam_runner_model.process_exits import ProcessExit
from beam_runner_model.waits import Wait


class FailureCause(enum.StrEnum):
    """Cause of a failed attempt at a bundle."""

    USER_CODE = "user_code"
    LOST_PROCESS = "lost_process"
    """The worker process exited or was replaced."""
    OUTSIDE = "outside"
    """A different failure outside of user code."""
    UNAVAILABLE = "unavailable"
    """An external system is unavailable. Such a failure doesn't count as an attempt."""
    PERMANENT = "permanent"
    """Data is missing or damaged, so a retry can't succeed."""

    @classmethod
    def _missing_(cls, value: object) -> FailureCause:
        return cls.OUTSIDE


@attrs.frozen
class FailedBundle:
    """Bundle whose latest attempt failed.

    Attributes:
        stage: the ID of the stage.
        bundle: the number of the bundle.
        steps: the full names of the transforms in the stage.
        attempts: the number of failed attempts.
        kind: the cause of the latest failure.
        step: the full name of the transform that failed; empty if unknown.
        error: the error text of the latest failure, in one line.
        element: the text of the element that the failed attempt processed; empty if unknown.
        neighbour: the name of the unavailable external system; empty if the cause isn't
            `UNAVAILABLE`.
        away: the duration (seconds) for which the external system has been unavailable.
        next_in: the time (seconds) until the next attempt starts; None if the next attempt is
            running.
        host: the machine of the lost worker process; empty if unknown.
        pid: the ID of the lost worker process; 0 if unknown.
        end: the exit of the lost worker process; None if unknown.
    """

    stage: str
    bundle: int
    steps: tuple[str, ...] = ()
    attempts: int = 0
    kind: FailureCause = attrs.field(default=FailureCause.OUTSIDE, converter=FailureCause)
    step: str = ""
    error: str = ""
    element: str = ""
    neighbour: str = ""
    away: float = 0.0
    next_in: float | None = None
    host: str = ""
    pid: int = 0
    end: ProcessExit | None = None


class JobFailureKind(enum.StrEnum):
    """Kind of reason for which a job fails."""

    BUNDLE = "bundle"
    """The last permitted attempt at a bundle failed."""
    STUCK = "stuck"
    """No part of the job could make progress."""
    PROCESSES = "processes"
    """No worker process could be started."""
    PLACEMENT = "placement"
    """The runner lost the cluster, or the local component that starts worker processes."""
    JOURNAL = "journal"
    """The journal of the job could not be written."""
    SERVER = "server"
    """The server raised an error."""
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> JobFailureKind:
        return cls.OTHER


@attrs.frozen
class JobFailure:
    """Reason for which a job failed.

    Attributes:
        kind: the kind of reason.
        reason: a description in one line.
        failure: the failed bundle, for the kind `BUNDLE`.
        waits: the waits of the job, for the kind `STUCK`.
    """

    kind: JobFailureKind = attrs.field(converter=JobFailureKind)
    reason: str = ""
    failure: FailedBundle | None = None
    waits: tuple[Wait, ...] = ()
