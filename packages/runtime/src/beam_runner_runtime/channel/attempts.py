"""Identity of an attempt at a bundle, and the records that report a failed attempt."""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import BundleFailed, FailureKind
from beam_runner_model.process_exits import ProcessExit
from beam_runner_model.texts import sanitize_text


@attrs.frozen
class Attempt:
    """Identity of an attempt at a bundle: bundle number and attempt number."""

    bundle: int
    attempt: int

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> Attempt:
        """Returns the current attempt of `bundle`."""
        return cls(bundle.number, bundle.attempt)


@attrs.frozen
class LanePlace:
    """Lane and worker process that ran an attempt, as the journal records them.

    Attributes:
        lane: number of the lane. A lane is a sequence of bundles in one worker process.
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
        isolated: number of attempts in which each failing unit (element, group, timer) failed, by
            the digest of the unit.
        quarantine: one line with the reason why no unit went to quarantine; empty without a
            quarantine.
    """

    transform: str = attrs.field(converter=sanitize_text)
    summary: str = attrs.field(converter=sanitize_text)
    trace: str = attrs.field(converter=sanitize_text)
    element: str = attrs.field(default="", converter=sanitize_text)
    isolated: tuple[tuple[bytes, int], ...] = ()
    quarantine: str = attrs.field(default="", converter=sanitize_text)

    @property
    def text(self) -> str:
        """Text of the failure: one line with exception and transform, then the element, the reason
        for which nothing went to quarantine, and the traceback.
        """
        element = f"The element: {self.element}\n" if self.element else ""
        quarantine = f"The quarantine: {self.quarantine}\n" if self.quarantine else ""
        line = f"{self.summary} [while running '{self.transform}']"
        return f"{line}\n{element}{quarantine}{self.trace}".rstrip()


@attrs.frozen
class FailedStep:
    """Step and element at which an attempt failed; `BundleFailed.detail` holds this record.

    Attributes:
        transform: full name of the transform.
        summary: type and text of the exception.
        element: one-line description of the element; empty if unknown.
        place: lane that ran the attempt; None in journals of earlier versions.
        isolated: number of attempts in which each failing unit failed, see `UserFailure`.
    """

    transform: str
    summary: str
    element: str = ""
    place: LanePlace | None = None
    isolated: tuple[tuple[bytes, int], ...] = ()


@attrs.frozen
class LostProcess:
    """Exited or unreachable worker process that ran an attempt; the record in
    `BundleFailed.detail`.

    Attributes:
        host: host name of the process; can be empty in journals of earlier versions.
        pid: process id.
        code: exit code, or minus the signal; None if unknown.
        lacked_memory: whether the process was killed because memory was short.
    """

    host: str = ""
    pid: int = 0
    code: int | None = None
    lacked_memory: bool = False

    @property
    def text(self) -> str:
        """Sentence that describes the loss of the process."""
        if not self.host:
            return "another process replaced its worker process"
        how = "was lost" if self.end is None else self.end.text
        return f"the worker process {self.pid} on {self.host} {how}"

    @property
    def end(self) -> ProcessExit | None:
        """Exit status of the process; None if unknown."""
        return None if self.code is None else ProcessExit(self.code, self.lacked_memory)


def add_lane_to_failure(event: BundleFailed, place: LanePlace | None) -> BundleFailed:
    """Adds the lane (worker process) that ran the attempt to an event about a failure of user code.
    Returns other events unchanged.
    """
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
        """Converts the report to an event for the engine's scheduler."""
        failure = self.failure
        cause, detail = self.reason, None
        if failure is not None:
            cause = failure.text
            detail = FailedStep(
                failure.transform, failure.summary, failure.element, isolated=failure.isolated
            )
        attempt = self.attempt
        return BundleFailed(
            attempt.bundle, attempt.attempt, cause, self.kind, self.neighbour, detail
        )


@attrs.frozen
class SectionRefusal:
    """Report that a section (several stages) can't run as one Spark job. The server discards the
    attempt, and runs the stages separately.

    Attributes:
        ran: whether user code ran in the attempt.
    """

    attempt: Attempt
    reason: str = attrs.field(converter=sanitize_text)
    ran: bool = False
