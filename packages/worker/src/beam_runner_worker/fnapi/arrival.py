"""What is said of an SDK harness that was started and has not connected: that it takes long, or that it is given up."""

from __future__ import annotations

import time
from collections.abc import Callable

from beam_runner_worker.fnapi.launchers import Launcher
from beam_runner_worker.fnapi.starting import Start, StartLimits, Verdict

_LOOK_SECONDS = 0.5
_TELL_SECONDS = 30.0


class Arrival:
    """Waits for one harness, of whose processes it looks at what they do.

    Args:
        launcher: of the harness, which was started.
        limits: how long it may take.
        tell: takes what people should know while it takes long, after 30 s and each time twice as many.

    Attributes:
        verdict: what is known of the harness.
        reason: why it is not waited for any longer; empty as long as it may come.
    """

    def __init__(
        self, launcher: Launcher, limits: StartLimits, tell: Callable[[str], None]
    ) -> None:
        self._launcher = launcher
        self._limits = limits
        self._tell = tell
        self._start: Start | None = None
        self._look_at = 0.0
        self._tell_after = _TELL_SECONDS
        self.verdict = Verdict.MAY_COME
        self.reason = ""

    def vain(self) -> str | None:
        """Why it will not come, or is not waited for any longer; None as long as it may come. Cheap."""
        failure = self._launcher.failure()
        if failure is not None:
            return f"the SDK did not start: {failure}"
        now = time.monotonic()
        if self._start is None:
            # Most come sooner than a look at all processes is worth.
            self._start, self._look_at = Start(self._limits, now), now + _LOOK_SECONDS
        if now < self._look_at:
            return None
        self._look_at = now + _LOOK_SECONDS
        self.verdict = self._start.look(now, self._launcher.activity())
        if self.verdict is not Verdict.MAY_COME:
            self.reason = self._given_up(self._start)
            return self.reason
        if self._start.elapsed >= self._tell_after:
            self._tell_after *= 2
            self._tell(self._told(self._start))
        return None

    def _given_up(self, start: Start) -> str:
        called, limits = self._launcher.called, self._limits
        match self.verdict:
            case Verdict.STOOD_STILL:
                return (
                    f"the SDK did not connect: its {called} has not, in the {start.elapsed:.0f} s since its "
                    f"start, and for {start.stood:.0f} s of these it neither ran nor waited for a core or a disk "
                    f"(limit: {limits.still:g} s)"
                )
            case Verdict.ENDLESS:
                did = f"its {called} was at work" if start.seen else f"there may be a {called}"
                return (
                    f"the SDK did not connect within {limits.most:g} seconds, though {did}: it "
                    "is taken for one that never will; if it only takes so long, run less at once on the machine"
                )
        return f"the SDK did not connect within {limits.unseen:g} seconds"

    def _told(self, start: Start) -> str:
        began = f"the SDK harness has been starting for {start.elapsed:.0f} s"
        called, whereabouts = self._launcher.called, self._launcher.whereabouts
        if start.seen:
            return (
                f"{began}, for {start.stood:.0f} s of which nothing was seen of its {called} running or "
                "waiting for a core or a disk"
            )
        return "; ".join(
            filter(None, (f"{began}; what its {called} does is not seen", whereabouts))
        )
