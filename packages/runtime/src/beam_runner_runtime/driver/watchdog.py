"""The rule of the watchdog: what a server says to run, and nobody is at work on, is a defect of the runner.

A process says every two seconds what it does. A bundle that its process is at work on is no defect, however long
that takes; nor is a process that says nothing, which may be stopped, or in code that holds Python's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import attrs

from beam_runner_runtime.channel.messages import Doing
from beam_runner_runtime.shutdown.limits import LIMITS

Item = TypeVar("Item")


@attrs.frozen
class Claim:
    """A bundle or a loop that the server says to run in a process. Times are seconds of one clock.

    Attributes:
        since: the time at which the process was told to run it.
        doing: what the process says that it is doing.
        doing_since: the time from which on it has said so.
        heard: the time at which it said anything last.
    """

    since: float
    doing: Doing
    doing_since: float
    heard: float


def is_defect(claim: Claim, moved: float, now: float) -> bool:
    """Returns whether nobody is at work on a claim, and has not been for `watchdog_seconds`.

    Args:
        claim: the bundle or the loop.
        moved: the time of the last commit of the job.
        now: the present time.
    """
    limit = LIMITS.watchdog_seconds
    if now - claim.heard > LIMITS.watchdog_heard_seconds:
        return False
    match claim.doing:
        case Doing.IDLE:
            return now - max(claim.since, claim.doing_since) > limit
        case Doing.LOOP | Doing.ORDER:
            # With short bundles it may be between two of them each time that it says what it does.
            return now - max(claim.since, claim.doing_since, moved) > limit
        case _:
            return False


@attrs.define
class Since:
    """The time since which something has been so, at each of several looks."""

    _began: float | None = None

    def seconds(self, *, is_so: bool, now: float) -> float:
        """Returns for how many seconds it has been so; 0 if it is not."""
        if not is_so:
            self._began = None
            return 0.0
        if self._began is None:
            self._began = now
        return now - self._began


def defects(claims: Sequence[tuple[Item, Claim]], moved: float, now: float) -> list[Item]:
    """Returns the places whose claims nobody is at work on."""
    return [place for place, claim in claims if is_defect(claim, moved, now)]
