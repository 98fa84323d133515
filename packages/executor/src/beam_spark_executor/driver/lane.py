"""One lane, as the server sees it: a place in a process. Times are those of ``time.monotonic``."""

from __future__ import annotations

import attrs
from beam_runner_engine.dispatch import Place

from beam_spark_executor.channel.attempts import Attempt
from beam_spark_executor.channel.server import WorkerLink


@attrs.define(eq=False)
class Lane(Place):
    """A lane; ``link`` is the process it runs in, None while it is being started.

    ``served`` says whether it was given anything to do in that process.
    """

    number: int
    link: WorkerLink | None = None
    served: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether it could be given something to do."""
        return self.link is not None and not self.is_busy

    def is_at(self, attempt: Attempt) -> bool:
        """Whether it runs this attempt at a bundle."""
        return self.runs(attempt.bundle, attempt.attempt)
