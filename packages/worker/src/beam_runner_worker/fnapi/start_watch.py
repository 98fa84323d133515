"""Supervision of a starting SDK harness: warns about a slow start, and decides when to give up the
harness.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from beam_runner_worker.fnapi.launchers import Launcher
from beam_runner_worker.fnapi.starting import HarnessStart, StartDecision, StartLimits

_LOOK_SECONDS = 0.5
_TELL_SECONDS = 30.0


class ConnectionWait:
    """Wait for the connection of one harness, which takes the activity of the harness's processes into
    account.

    Args:
        tell: function that shows a warning about a slow start to the user: after 30 s, 60 s, 120 s
            and so on.

    Attributes:
        reason: why the harness was given up; empty while it may still connect.
    """

    def __init__(
        self, launcher: Launcher, limits: StartLimits, tell: Callable[[str], None]
    ) -> None:
        self._launcher = launcher
        self._limits = limits
        self._tell = tell
        self._start: HarnessStart | None = None
        self._look_at = 0.0
        self._tell_after = _TELL_SECONDS
        self.verdict = StartDecision.MAY_COME
        self.reason = ""

    def explain_abandoned_start(self) -> str | None:
        """Returns the reason if the harness will not connect or the runner has given it up; None
        while the harness may connect. A call is cheap, because the activity is measured only every
        0.5 s.
        """
        failure = self._launcher.explain_failure()
        if failure is not None:
            return f"the SDK did not start: {failure}"
        now = time.monotonic()
        if self._start is None:
            # Wait before the first scan of all processes, because most harnesses connect earlier.
            self._start, self._look_at = HarnessStart(self._limits, now), now + _LOOK_SECONDS
        if now < self._look_at:
            return None
        self._look_at = now + _LOOK_SECONDS
        self.verdict = self._start.check_activity(now, self._launcher.measure_activity())
        if self.verdict is not StartDecision.MAY_COME:
            self.reason = self._describe_abandoned_start(self._start)
            return self.reason
        if self._start.elapsed >= self._tell_after:
            self._tell_after *= 2
            self._tell(self._describe_slow_start(self._start))
        return None

    def _describe_abandoned_start(self, start: HarnessStart) -> str:
        called, limits = self._launcher.description, self._limits
        match self.verdict:
            case StartDecision.STOOD_STILL:
                return (
                    f"the SDK did not connect: its {called} has not connected within"
                    f" {start.elapsed:.0f} s, and for {start.stood:.0f} s of that time"
                    " it neither ran nor waited for a core or a disk (limit:"
                    f" {limits.idle_seconds:g} s)"
                )
            case StartDecision.ENDLESS:
                did = f"its {called} was active" if start.seen else f"a {called} may exist"
                return (
                    f"the SDK did not connect within {limits.most:g} seconds, although"
                    f" {did}: the runner assumes that the SDK will never connect; if the"
                    " start is only slow, run fewer processes at once on the machine"
                )
        return f"the SDK did not connect within {limits.unseen:g} seconds"

    def _describe_slow_start(self, start: HarnessStart) -> str:
        began = f"the SDK harness has been starting for {start.elapsed:.0f} s"
        called, whereabouts = self._launcher.description, self._launcher.log_hint
        if start.seen:
            return (
                f"{began}, and for {start.stood:.0f} s its {called} neither ran nor"
                " waited for a core or a disk"
            )
        return "; ".join(
            filter(None, (f"{began}; the activity of its {called} isn't visible", whereabouts))
        )
