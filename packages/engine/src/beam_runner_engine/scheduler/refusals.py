"""Reasons why the state of a job can't be captured, or can't continue in another graph."""

from __future__ import annotations

import enum

import attrs

from beam_runner_engine.scheduler.errors import SchedulerError


class RefusalKind(enum.Enum):
    """Kind of reason for a refused transfer."""

    PHASE = "the job hasn't started, drains or has ended"
    INTERRUPTED = "the job failed during an event, so its state is incomplete"
    TEST_STREAM = "a TestStream can't continue in another graph"
    SECTION = "the stage is in a section, which only bounded jobs have"
    NO_IDENTITY = "the stage or collection has no identity"
    AMBIGUOUS_IDENTITY = "several stages or collections have the same identity"
    UNKNOWN_IDENTITY = "the earlier graph has no stage with this identity"
    WORK_LEFT = "work waits for a stage that the graph doesn't have"
    STATE_LEFT = "timers or windows wait for a stage that the graph doesn't have"
    STAGE_KIND = "the kind of the stage has changed"
    ENDED_INPUT = "the input has ended, so no further data can be added to it"
    ENDED_SIDE_INPUT = "the collection has ended, so its data is lost for a new side input"
    HOST_CODE = "code of the host failed"
    STUCK = "no stage could continue"


@attrs.frozen
class Refusal:
    """Reason why a transfer is refused.

    Attributes:
        identity: the identity of the stage or collection; its name in the graph if it has no
            identity, and empty for the complete job.
        detail: values for a message, such as a count.
    """

    kind: RefusalKind
    identity: str = ""
    detail: str = ""

    def __str__(self) -> str:
        where = f"{self.identity!r}: " if self.identity else ""
        return f"{where}{self.kind.value}" + (f" ({self.detail})" if self.detail else "")


class TransferRefused(SchedulerError):
    """Error of a job whose state can't continue in another graph. Nothing has changed."""

    def __init__(self, refusals: tuple[Refusal, ...]) -> None:
        super().__init__("The state can't be transferred: " + "; ".join(map(str, refusals)))
        self.refusals = refusals
