"""Who has a job's scheduler: its host, or one place that drives the job by itself for a while, in a loop."""

from __future__ import annotations


class LoopLease:
    """Is told when loops begin and end, and says whether another one may begin; times are seconds of any clock
    that never goes back.

    After a loop that was outgrown before `outgrown_pause` seconds had passed there is none for as long; after one
    that was lost with its process none for `broken_pause` seconds, in which bundles run one by one, so that
    the one to blame can be told. `number` is the last loop's, and `is_out` says that it has the scheduler, or will have it
    as soon as it begins.
    """

    def __init__(self, outgrown_pause: float, broken_pause: float) -> None:
        self.number = 0
        self.is_out = False
        self._outgrown_pause = outgrown_pause
        self._broken_pause = broken_pause
        self._not_before = float("-inf")
        self._began = 0.0

    def may_begin(self, now: float) -> bool:
        """Says whether no earlier loop speaks against one now."""
        return now >= self._not_before

    def begin(self, now: float) -> None:
        """The scheduler is lent to a new loop."""
        self.is_out = True
        self.number += 1
        self._began = now

    def covers(self, loop: int) -> bool:
        """Says whether this loop is awaited, and not one that was thought lost."""
        return self.is_out and loop == self.number

    def end(self) -> None:
        """The scheduler is the host's again."""
        self.is_out = False

    def outgrown(self, now: float) -> None:
        """The loop has given the scheduler back since several places do better."""
        self.is_out = False
        if now - self._began < self._outgrown_pause:
            self._not_before = now + self._outgrown_pause

    def broke(self, now: float) -> None:
        """The loop was lost with its process."""
        self.is_out = False
        self._not_before = now + self._broken_pause
