"""One attempt at a bundle, and what says that nothing of it counts."""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler import Bundle, BundleFailed, FailureKind
from beam_runner_worker.texts import encodable


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
class UserFailure:
    """User code, or the SDK for it, raised.

    Attributes:
        transform: the full name of the transform.
        summary: type and text of the exception.
        trace: the traceback.
        element: what is known of the element that was processed, in one line; may be empty.
    """

    transform: str = attrs.field(converter=encodable)
    summary: str = attrs.field(converter=encodable)
    trace: str = attrs.field(converter=encodable)
    element: str = attrs.field(default="", converter=encodable)

    @property
    def text(self) -> str:
        """What was raised and where, in one line, then the element, then the traceback."""
        element = f"The element: {self.element}\n" if self.element else ""
        return f"{self.summary} [while running '{self.transform}']\n{element}{self.trace}".rstrip()


@attrs.frozen
class BundleBroke:
    """An attempt at a bundle failed; nothing of it counts.

    Attributes:
        failure: what user code raised, or None if it failed from outside.
        reason: why, where it failed from outside.
    """

    attempt: Attempt
    failure: UserFailure | None
    reason: str = attrs.field(default="", converter=encodable)

    def to_event(self) -> BundleFailed:
        """The engine's event."""
        if self.failure is None:
            kind, cause = FailureKind.OUTSIDE, self.reason
        else:
            kind, cause = FailureKind.USER, self.failure.text
        return BundleFailed(self.attempt.bundle, self.attempt.attempt, cause, kind)


@attrs.frozen
class SectionRefusal:
    """A section can't be run as one Spark job; nothing of this attempt counts, and its stages run apart.

    Attributes:
        ran: whether user code has run in it.
    """

    attempt: Attempt
    reason: str = attrs.field(converter=encodable)
    ran: bool = False
