"""Lane from the server's perspective: a slot in a process. Times are from ``time.monotonic``."""

from __future__ import annotations

import attrs
from beam_runner_engine.dispatch.places import Slot

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import FromServer
from beam_runner_runtime.channel.server import WorkerLink


@attrs.define(eq=False)
class Lane(Slot):
    """Lane of a job. ``link`` is the process of the lane, and None while the lane starts."""

    number: int
    link: WorkerLink | None = None

    @property
    def is_starting(self) -> bool:
        """Whether the lane has no worker process yet."""
        return self.link is None

    def runs_attempt(self, attempt: Attempt) -> bool:
        """Returns whether the lane runs this attempt."""
        return self.runs_bundle_attempt(attempt.bundle, attempt.attempt)

    def send(self, command: FromServer) -> None:
        """Sends a command to the lane's process. The lane must have a process."""
        assert self.link is not None
        self.link.send(command)
