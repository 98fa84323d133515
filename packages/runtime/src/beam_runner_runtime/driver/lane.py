"""One lane, as the server sees it: a place in a process. Times are those of ``time.monotonic``."""

from __future__ import annotations

import attrs
from beam_runner_engine.dispatch.places import Slot

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import FromServer
from beam_runner_runtime.channel.server import WorkerLink


@attrs.define(eq=False)
class Lane(Slot):
    """A lane; ``link`` is the process it runs in, None while it is being started."""

    number: int
    link: WorkerLink | None = None

    @property
    def is_starting(self) -> bool:
        """Whether it is being started."""
        return self.link is None

    def is_at(self, attempt: Attempt) -> bool:
        """Whether it runs this attempt at a bundle."""
        return self.runs(attempt.bundle, attempt.attempt)

    def send(self, command: FromServer) -> None:
        """Tells its process something; it has one."""
        assert self.link is not None
        self.link.send(command)
