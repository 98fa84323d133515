"""Bundles that failed, and why jobs ended as failed, as records that cross package borders."""

from __future__ import annotations

import enum

import attrs

from beam_runner_model.waits import Wait


class FailureCause(enum.StrEnum):
    """Why an attempt at a bundle failed."""

    USER_CODE = "user_code"
    LOST_PROCESS = "lost_process"
    """The worker process ended, or was replaced."""
    OUTSIDE = "outside"
    """Something else outside of user code."""
    UNAVAILABLE = "unavailable"
    """A neighbour is unavailable. Such a failure isn't counted as an attempt."""
    PERMANENT = "permanent"
    """Data is missing or damaged, which no attempt can mend."""

    @classmethod
    def _missing_(cls, value: object) -> FailureCause:
        return cls.OUTSIDE


@attrs.frozen
class FailedBundle:
    """A bundle of which the latest attempt failed.

    Attributes:
        stage: the id of its stage.
        bundle: its number.
        steps: the full names of the transforms in its stage.
        attempts: the number of attempts that failed.
        kind: why the latest attempt failed.
        step: the full name of the transform that failed; empty if it isn't known.
        error: what the latest failure reported, in one line.
        element: the element that was processed, if it is known.
        neighbour: the name of what is unavailable, if something is.
        away: for how many seconds the neighbour has been unavailable.
        next_in: how many seconds until the next attempt begins; None if it runs.
        host: the machine of the worker process that was lost, if it is known.
        pid: that process.
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


class EndingKind(enum.StrEnum):
    """Why a job ended as failed."""

    BUNDLE = "bundle"
    """The last attempt at a bundle failed."""
    STUCK = "stuck"
    """Nothing of the job could move any more."""
    PROCESSES = "processes"
    """No worker process could be had."""
    PLACEMENT = "placement"
    """The cluster was lost, or what starts processes on this machine."""
    JOURNAL = "journal"
    """The journal of the job could not be written."""
    SERVER = "server"
    """The server raised an error."""
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> EndingKind:
        return cls.OTHER


@attrs.frozen
class Ending:
    """Why a job ended as failed.

    Attributes:
        kind: what ended it.
        reason: what happened, in one line.
        failure: the bundle that failed, for the kind `BUNDLE`.
        waits: what the job waited for, for the kind `STUCK`.
    """

    kind: EndingKind = attrs.field(converter=EndingKind)
    reason: str = ""
    failure: FailedBundle | None = None
    waits: tuple[Wait, ...] = ()
