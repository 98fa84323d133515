"""Whether an SDK harness that has not connected yet may still come: by what its processes do, not by the clock alone.

A harness imports Beam and the pipeline's modules before it connects. That takes seconds on an idle machine
and minutes on an overloaded one, where another harness in its place would make the load worse. So what
uses up its limit is the time in which it stands still: when it neither runs nor waits for a core or a disk.
"""

from __future__ import annotations

import enum

import attrs


class Verdict(enum.Enum):
    """What is known of a harness that was started; all but the first give it up."""

    MAY_COME = "it may still come"
    STOOD_STILL = "its processes are there, and it has done nothing for its limit"
    UNSEEN = "its limit is over, and nobody knows what it does"
    ENDLESS = "it has had more time than any start takes"


@attrs.frozen
class Activity:
    """What the processes of a harness do.

    Attributes:
        ran: for how many seconds they have been on a core so far.
        wants: whether one of them runs now, or waits for a core or a disk.
    """

    ran: float
    wants: bool


@attrs.frozen
class StartLimits:
    """How long a harness may take to connect, in seconds.

    Attributes:
        still: in which it stands still, taken together.
        unseen: in all, where what it does can't be seen.
        most: in all, whatever it does.
    """

    still: float
    unseen: float
    most: float


class Start:
    """The start of one harness; told the time, in seconds of any clock that never goes back.

    Attributes:
        elapsed: how long it has lasted, at the last look.
        seen: whether anything was seen of what it does.
        stood: for how much of that it is known to have stood still.
    """

    def __init__(self, limits: StartLimits, began: float) -> None:
        self._limits = limits
        self._began = self._looked = began
        self._ran = 0.0
        self.seen = False
        self.elapsed = self.stood = 0.0

    def look(self, now: float, activity: Activity | None) -> Verdict:
        """What is known of it now; to be called every second or so.

        Args:
            now: the time.
            activity: what its processes do; None where that can't be seen.
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
            return Verdict.ENDLESS
        if not self.seen and self.elapsed >= self._limits.unseen:
            return Verdict.UNSEEN
        if self.stood >= self._limits.still:
            return Verdict.STOOD_STILL
        return Verdict.MAY_COME
