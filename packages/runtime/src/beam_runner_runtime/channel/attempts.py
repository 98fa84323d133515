"""Attempts at bundles, and the messages that report a failed attempt."""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import BundleFailed, FailureKind
from beam_runner_model.texts import sanitize_text


@attrs.frozen
class Attempt:
    """Identity of an attempt at a bundle: bundle number and attempt number."""

    bundle: int
    attempt: int

    @classmethod
    def of_bundle(cls, bundle: Bundle) -> Attempt:
        """Returns the current attempt of `bundle`."""
        return cls(bundle.number, bundle.attempt)


@attrs.frozen
class LanePlace:
    """Lane and worker process that ran an attempt, recorded in the journal.

    Attributes:
        lane: number of the lane.
        host: host name of the process.
        pid: process id.
    """

    lane: int
    host: str
    pid: int


@attrs.frozen
class UserFailure:
    """Exception that user code raised, or that the SDK raised on its behalf.

    Attributes:
        transform: full name of the transform.
        summary: type and text of the exception.
        trace: traceback.
        element: one-line description of the element that was processed; empty if unknown.
    """

    transform: str = attrs.field(converter=sanitize_text)
    summary: str = attrs.field(converter=sanitize_text)
    trace: str = attrs.field(converter=sanitize_text)
    element: str = attrs.field(default="", converter=sanitize_text)

    @property
    def text(self) -> str:
        """Text of the failure: one line with exception and transform, then the element, then the traceback."""
        element = f"The element: {self.element}\n" if self.element else ""
        return f"{self.summary} [while running '{self.transform}']\n{element}{self.trace}".rstrip()


@attrs.frozen
class FailedStep:
    """Step and element of a failed attempt, as the record in `BundleFailed.detail`.

    Attributes:
        transform: full name of the transform.
        summary: type and text of the exception.
        element: one-line description of the element; empty if unknown.
        place: lane that ran the attempt; None in journals of earlier versions.
    """

    transform: str
    summary: str
    element: str = ""
    place: LanePlace | None = None


@attrs.frozen
class LostProcess:
    """Lost worker process of an attempt, as the record in `BundleFailed.detail`.

    Attributes:
        host: host name of the process; empty if another process replaced it before the server
            noticed the loss.
        pid: process id.
    """

    host: str = ""
    pid: int = 0

    @property
    def text(self) -> str:
        """Sentence that describes the loss of the process."""
        if not self.host:
            return "another process replaced its worker process"
        return f"the worker process {self.pid} on {self.host} was lost"


def add_lane_to_failure(event: BundleFailed, place: LanePlace | None) -> BundleFailed:
    """Returns the event with the lane that ran the attempt, if user code failed. Returns other events unchanged."""
    if not isinstance(event.detail, FailedStep):
        return event
    return attrs.evolve(event, detail=attrs.evolve(event.detail, place=place))


def describe_loss(bundle: Bundle, reason: str, process: LostProcess | None) -> BundleFailed:
    """Returns the failure event of a bundle that failed outside of user code. `process` is the lost process, if any."""
    attempt, kind = (bundle.number, bundle.attempt), FailureKind.OUTSIDE
    return BundleFailed(*attempt, reason, kind, detail=process)


@attrs.frozen
class BundleFailure:
    """Report of a failed attempt at a bundle. The server discards all results of the attempt.

    Attributes:
        failure: exception from user code; None if the attempt failed for another reason.
        reason: cause of the failure, if user code raised no exception.
        kind: category of the failure.
        neighbour: name of the unavailable external system, if the kind is `UNAVAILABLE`.
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
        """Returns the event that the engine's scheduler handles."""
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
    """Report that a section can't run as one Spark job. The server discards this attempt and runs the
    stages separately.

    Attributes:
        ran: whether user code ran in the attempt.
    """

    attempt: Attempt
    reason: str = attrs.field(converter=sanitize_text)
    ran: bool = False
