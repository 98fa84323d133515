"""One attempt at a bundle, and what says that nothing of it counts."""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import BundleFailed, FailureKind
from beam_runner_model.texts import sanitize_text


@attrs.frozen
class Attempt:
    """One attempt at a bundle, as the scheduler numbers them."""

    bundle: int
    attempt: int

    @classmethod
    def of(cls, bundle: Bundle) -> Attempt:
        """The one that was ordered with this bundle."""
        return cls(bundle.number, bundle.attempt)


@attrs.frozen
class LanePlace:
    """The lane that ran an attempt, and its process; the server adds it to the journal.

    Attributes:
        lane: the number of the lane.
        host: the machine of the process.
        pid: the process.
    """

    lane: int
    host: str
    pid: int


@attrs.frozen
class UserFailure:
    """User code, or the SDK for it, raised.

    Attributes:
        transform: the full name of the transform.
        summary: type and text of the exception.
        trace: the traceback.
        element: what is known of the element that was processed, in one line; may be empty.
    """

    transform: str = attrs.field(converter=sanitize_text)
    summary: str = attrs.field(converter=sanitize_text)
    trace: str = attrs.field(converter=sanitize_text)
    element: str = attrs.field(default="", converter=sanitize_text)

    @property
    def text(self) -> str:
        """What was raised and where, in one line, then the element, then the traceback."""
        element = f"The element: {self.element}\n" if self.element else ""
        return f"{self.summary} [while running '{self.transform}']\n{element}{self.trace}".rstrip()


@attrs.frozen
class FailedStep:
    """Step and element at which an attempt failed, as the record `BundleFailed.detail`.

    Attributes:
        transform: the full name of the transform.
        summary: type and text of the exception.
        element: what is known of the element, in one line; may be empty.
        place: the lane that ran the attempt; None in journals of earlier versions.
    """

    transform: str
    summary: str
    element: str = ""
    place: LanePlace | None = None


@attrs.frozen
class LostProcess:
    """The worker process that an attempt was lost with, as the record `BundleFailed.detail`.

    Attributes:
        host: its machine; empty if another process has taken its place before it was known to be lost.
        pid: the process.
    """

    host: str = ""
    pid: int = 0

    @property
    def text(self) -> str:
        """What happened to it."""
        if not self.host:
            return "its worker process was replaced"
        return f"the worker process {self.pid} on {self.host} was lost"


def failed_at(event: BundleFailed, place: LanePlace | None) -> BundleFailed:
    """Returns the event with the lane that ran the attempt, if user code failed."""
    if not isinstance(event.detail, FailedStep):
        return event
    return attrs.evolve(event, detail=attrs.evolve(event.detail, place=place))


def lost_with(bundle: Bundle, reason: str, process: LostProcess | None) -> BundleFailed:
    """Returns the event of a bundle that was lost from outside of user code, with a process or without."""
    attempt, kind = (bundle.number, bundle.attempt), FailureKind.OUTSIDE
    return BundleFailed(*attempt, reason, kind, detail=process)


@attrs.frozen
class BundleBroke:
    """An attempt at a bundle failed; nothing of it counts.

    Attributes:
        failure: what user code raised; None if the cause lies elsewhere.
        reason: the cause, if user code did not raise.
        kind: whose fault it is.
        neighbour: the name of the neighbour that was unavailable, if the kind is `UNAVAILABLE`.
    """

    attempt: Attempt
    failure: UserFailure | None
    reason: str = attrs.field(default="", converter=sanitize_text)
    kind: FailureKind = attrs.field(
        default=attrs.Factory(
            lambda self: FailureKind.OUTSIDE if self.failure is None else FailureKind.USER,
            takes_self=True,
        )
    )
    neighbour: str = attrs.field(default="", converter=sanitize_text)

    def to_event(self) -> BundleFailed:
        """Returns the engine's event."""
        failure = self.failure
        cause, detail = self.reason, None
        if failure is not None:
            cause = failure.text
            detail = FailedStep(failure.transform, failure.summary, failure.element)
        attempt = self.attempt
        return BundleFailed(
            attempt.bundle, attempt.attempt, cause, self.kind, self.neighbour, detail
        )


@attrs.frozen
class SectionRefusal:
    """A section can't be run as one Spark job; nothing of this attempt counts, and its stages run apart.

    Attributes:
        ran: whether user code has run in it.
    """

    attempt: Attempt
    reason: str = attrs.field(converter=sanitize_text)
    ran: bool = False
