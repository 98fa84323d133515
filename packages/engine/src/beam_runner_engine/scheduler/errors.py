"""Errors of the scheduler: illegal events, invalid graphs and failing caller code."""

from __future__ import annotations


class SchedulerError(Exception):
    """Base class of the scheduler's errors."""


class IllegalEvent(SchedulerError):
    """Error of an event that the scheduler's state doesn't allow. The event changed nothing."""

    def __init__(self, event: object, why: str) -> None:
        super().__init__(f"Illegal event {type(event).__name__}: {why}. The event: {event!r}")
        self.event = event
        self.why = why


class GraphError(SchedulerError):
    """Error of an invalid graph. The message names the stage or collection."""


class HostCodeError(SchedulerError):
    """Error of a policy or window mapping that the scheduler calls: the code raised an error or
    returned an invalid result.

    `Scheduler.handle_event` catches this error and fails the job with it as the reason.
    """

    def __init__(self, stage: str, code: str, problem: str) -> None:
        super().__init__(f"{code} of stage {stage!r} {problem}")
        self.stage = stage
        self.problem = problem
