"""One lane, as the server sees it. Times are those of ``time.monotonic``."""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler import Bundle

from beam_spark_executor.channel.attempts import Attempt
from beam_spark_executor.channel.server import WorkerLink
from beam_spark_executor.tuning import TUNING


@attrs.define(eq=False)
class Lane:
    """A lane; ``link`` is the process it runs in, None while it is being started.

    ``served`` says whether it was given anything to do in that process, ``giving_way`` whether what
    it runs has been asked to end, ``asked`` when, ``changed`` when that came further, ``heard`` whether it has told
    how far it is, and ``waits`` whether it leaves time to others in its interpreter, if that is known.
    """

    number: int
    link: WorkerLink | None = None
    running: Bundle | None = None
    loop: bool = False
    served: bool = False
    last_place: tuple[str, int | None] | None = None
    fraction: float = 0.0
    heard: bool = False
    waits: bool | None = None
    changed: float = 0.0
    began: float = 0.0
    asked: float = 0.0
    giving_way: bool = False

    def begin(self, bundle: Bundle | None, now: float) -> None:
        """It runs a bundle from now on, or none."""
        self.running, self.fraction, self.giving_way = bundle, 0.0, False
        self.heard, self.waits = False, None
        self.began = self.changed = now

    @property
    def is_idle(self) -> bool:
        """Whether it could be given something to do."""
        return self.link is not None and not self.is_busy

    @property
    def is_busy(self) -> bool:
        """Whether it runs something."""
        return self.loop or self.running is not None

    def runs(self, attempt: Attempt) -> bool:
        """Whether it runs this attempt at a bundle."""
        bundle = self.running
        return bundle is not None and Attempt.of(bundle) == attempt

    def is_blocked(self, now: float, *, takes_turns: bool) -> bool:
        """Whether what it runs does not use a core; ``takes_turns`` as in ``Lanes``."""
        patience = TUNING.blocked_seconds
        if takes_turns:
            if self.waits is False:
                return False  # it is busy with one element
            if not self.heard:
                patience = TUNING.unheard_seconds
        return self.is_busy and self.changed < now - patience
