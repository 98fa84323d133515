"""Decision whether a starting SDK harness may still connect, based on the activity of its processes.

A harness imports Beam and the pipeline's modules before it connects. That takes seconds on an idle
machine and minutes on an overloaded one, where another harness would increase the load. So only
idle time counts towards the limit: time in which the harness neither runs nor waits for a core or a
disk.
"""

from __future__ import annotations

import enum

import attrs


class StartDecision(enum.Enum):
    """Decision about a starting harness. With all values except ``MAY_COME``, the runner stops waiting."""

    MAY_COME = "the harness can still connect"
    STOOD_STILL = "the processes of the harness exist, but were inactive for the limit"
    UNSEEN = "the limit is over, and the activity of the harness isn't visible"
    ENDLESS = "the harness had more time than any start takes"


@attrs.frozen
class HarnessActivity:
    """CPU time and current activity of a harness's processes.

    Attributes:
        ran: CPU time of the processes so far, in seconds.
        wants: whether a process is running, or waits for a core or a disk.
    """

    ran: float
    wants: bool


@attrs.frozen
class StartLimits:
    """The time limits for a harness to connect, in seconds.

    Attributes:
        idle_seconds: maximum total idle time of the starting harness.
        unseen: maximum duration of the start if the harness's activity isn't visible.
        most: maximum duration of the start in any case.
    """

    idle_seconds: float
    unseen: float
    most: float


class HarnessStart:
    """Start of one harness, with the elapsed time and the idle time. The caller passes the current
    time in seconds of any monotonic clock.

    Attributes:
        elapsed: duration of the start at the last update, in seconds.
        seen: whether the activity of the harness was ever visible.
        stood: known idle time of the harness, in seconds.
    """

    def __init__(self, limits: StartLimits, began: float) -> None:
        self._limits = limits
        self._began = self._looked = began
        self._ran = 0.0
        self.seen = False
        self.elapsed = self.stood = 0.0

    def check_activity(self, now: float, activity: HarnessActivity | None) -> StartDecision:
        """Updates the idle time, and returns the current verdict. Must be called about every second.

        Args:
            activity: the activity of the harness's processes; None if the activity isn't visible.
        """
        since, self._looked = now - self._looked, now
        self.elapsed = now - self._began
        if activity is not None:
            self.seen = True
            ran = activity.ran - self._ran
            self._ran = activity.ran
            if not activity.wants:
                self.stood += max(0.0, since - max(0.0, ran))
        if self.elapsed >= self._limits.most:
            return StartDecision.ENDLESS
        if not self.seen and self.elapsed >= self._limits.unseen:
            return StartDecision.UNSEEN
        if self.stood >= self._limits.idle_seconds:
            return StartDecision.STOOD_STILL
        return StartDecision.MAY_COME
