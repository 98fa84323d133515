"""Who has the job's scheduler: the server, or the loop inside a task that it was lent to."""

from __future__ import annotations

import time

from beam_spark_executor.channel.messages import LoopProgress, LoopReply
from beam_spark_executor.tuning import TUNING


class LoopLease:
    """Belongs to the job's own thread.

    Attributes:
        number: of the last loop.
        is_out: whether the loop has the scheduler, or will have it as soon as it begins.
    """

    def __init__(self) -> None:
        self.number = 0
        self.is_out = False
        self._not_before = 0.0
        self._began = 0.0

    @property
    def may_begin(self) -> bool:
        """Whether no earlier loop speaks against one now."""
        return time.monotonic() >= self._not_before

    def begin(self) -> None:
        """The scheduler is lent to a new loop."""
        self.is_out = True
        self.number += 1
        self._began = time.monotonic()

    def covers(self, message: LoopProgress | LoopReply) -> bool:
        """Whether it comes from the loop that is awaited, not from one that was thought lost."""
        return self.is_out and message.loop == self.number

    def end(self) -> None:
        """The scheduler is the server's again."""
        self.is_out = False

    def outgrown(self) -> None:
        """The loop has given the scheduler back to lanes."""
        self.is_out = False
        now = time.monotonic()
        if now - self._began < TUNING.loop_outgrown_pause_seconds:
            self._not_before = now + TUNING.loop_outgrown_pause_seconds

    def broke(self) -> None:
        """The loop was lost with its process."""
        self.is_out = False
        self._not_before = time.monotonic() + TUNING.loop_broken_pause_seconds
