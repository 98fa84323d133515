"""Lease on a job's scheduler: either the server runs the scheduler, or one worker process runs the
scheduler in a loop (the scheduler loop).
"""

from __future__ import annotations


class SchedulerLease:
    """Lease on a job's scheduler, with limits on when a new scheduler loop can start.

    Times are seconds on any monotonic clock. A scheduler loop that has too much work for one slot
    is "outgrown", and returns the scheduler to the server. If this happens within `outgrown_pause`
    seconds of the loop's start, no new loop starts for `outgrown_pause` seconds. If a loop was lost
    with its process, no new loop starts for `broken_pause` seconds. During this time, bundles run
    one by one in separate slots, which identifies the bundle that crashes its process. `number` is
    the number of the latest loop. `is_out` is True while a loop holds the lease.
    """

    def __init__(self, outgrown_pause: float, broken_pause: float) -> None:
        self.number = 0
        self.is_out = False
        self._outgrown_pause = outgrown_pause
        self._broken_pause = broken_pause
        self._not_before = float("-inf")
        self._began = 0.0

    def can_start_loop(self, now: float) -> bool:
        """Returns whether a new scheduler loop may start, because the pauses after earlier loops
        have ended.
        """
        return now >= self._not_before

    def begin_lease(self, now: float) -> None:
        """Lends the scheduler to a new scheduler loop in a worker process."""
        self.is_out = True
        self.number += 1
        self._began = now

    def is_held_by(self, loop: int) -> bool:
        """Returns whether this scheduler loop holds the lease; False for a loop that the server
        considers lost.
        """
        return self.is_out and loop == self.number

    def end_lease(self) -> None:
        """Ends the lease of the current scheduler loop, and returns the scheduler to the server."""
        self.is_out = False

    def end_lease_for_more_slots(self, now: float) -> None:
        """Returns the scheduler from a worker process to the server, because several slots are
        faster than one scheduler loop.
        """
        self.is_out = False
        if now - self._began < self._outgrown_pause:
            self._not_before = now + self._outgrown_pause

    def end_lease_of_lost_loop(self, now: float) -> None:
        """Returns the scheduler to the server after the worker process with the scheduler loop was
        lost.
        """
        self.is_out = False
        self._not_before = now + self._broken_pause
