"""What can go wrong: an illegal event, an impossible graph, host code."""

from __future__ import annotations


class SchedulerError(Exception):
    """The common base of the scheduler's errors."""


class IllegalEvent(SchedulerError):
    """An event that the scheduler's state does not allow; nothing was changed by it."""

    def __init__(self, event: object, why: str) -> None:
        super().__init__(f"illegal event {type(event).__name__}: {why}; the event was {event!r}")
        self.event = event
        self.why = why


class GraphError(SchedulerError):
    """A graph of stages that can't be run, with the stage or collection at fault."""


class HostCodeError(SchedulerError):
    """Code of the host's, called inside `handle`, raised or answered what it must not.

    Never leaves the scheduler: the job fails with it as the reason.
    """

    def __init__(self, stage: str, code: str, problem: str) -> None:
        super().__init__(f"{code} of stage {stage!r} {problem}")
        self.stage = stage
        self.problem = problem
