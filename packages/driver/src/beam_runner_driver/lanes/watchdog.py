"""Detection of assigned bundles that no worker process runs, which are a defect of the runner.

A process reports its activity every 2 s. A bundle that a process reports isn't lost, even if it
takes long. A bundle whose process doesn't send reports isn't lost either: the process may be
stopped, or C code may hold Python's GIL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import attrs
from beam_runner_runtime.channel.messages import WorkerActivity
from beam_runner_runtime.shutdown.limits import LIMITS

Item = TypeVar("Item")


@attrs.frozen
class AssignedWork:
    """Bundle or scheduler loop that the server assigned to a worker process. All times are seconds
    of the same clock.

    Attributes:
        since: time of the assignment.
        doing: activity that the process reported last.
        doing_since: time of the first report of this activity.
        heard: time of the latest message of the process.
    """

    since: float
    doing: WorkerActivity
    doing_since: float
    heard: float


def is_abandoned(claim: AssignedWork, moved: float, now: float) -> bool:
    """Returns whether the process has reported other work than the assigned bundle or loop for
    `LIMITS.watchdog_seconds`.

    Args:
        claim: assigned bundle or loop.
        moved: time of the job's latest commit.
        now: current time.
    """
    limit = LIMITS.watchdog_seconds
    if now - claim.heard > LIMITS.watchdog_heard_seconds:
        return False
    match claim.doing:
        case WorkerActivity.IDLE:
            return now - max(claim.since, claim.doing_since) > limit
        case WorkerActivity.LOOP | WorkerActivity.ORDER:
            # Count from the latest commit too: if bundles are short, each activity report can fall
            # between two bundles.
            return now - max(claim.since, claim.doing_since, moved) > limit
        case _:
            return False


@attrs.define
class ConditionTimer:
    """Timer that measures how long a condition has been true at every check."""

    _began: float | None = None

    def measure_seconds(self, *, is_so: bool, now: float) -> float:
        """Returns the seconds since the condition became true, or 0 if `is_so` is false."""
        if not is_so:
            self._began = None
            return 0.0
        if self._began is None:
            self._began = now
        return now - self._began


def find_abandoned_work(
    claims: Sequence[tuple[Item, AssignedWork]], moved: float, now: float
) -> list[Item]:
    """Returns the processes that report other work than the bundle or loop that the server assigned to them."""
    return [place for place, claim in claims if is_abandoned(claim, moved, now)]
