"""Has user code that runs in another's process stop: with LOOPBACK, nobody may kill that."""

from __future__ import annotations

import time
from collections.abc import Callable

from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.shutdown.limits import LIMITS

_AGAIN_SECONDS = 0.02


class GivingUp:
    """Ends the bundle that runs, if it can be split; none begins after it. Any thread may call it.

    Args:
        running: the bundle that the process runs now.
    """

    def __init__(self, running: Callable[[], LocalBundle | None]) -> None:
        self._running = running
        self.has_begun = False
        """Whether bundles elsewhere are not to begin any more."""

    def begin(self) -> None:
        """No bundle elsewhere is to begin from now on: a loop would go on with what the last one has put off."""
        self.has_begun = True

    def stop(self) -> None:
        """Gives away all that is left of the bundle. It is tried for `give_up_seconds`: one that has just begun can't be split before its SDK knows it."""
        until = time.monotonic() + LIMITS.give_up_seconds
        while (running := self._running()) is not None and not running.embedded:
            if running.split(0.0).done.residuals or time.monotonic() > until:
                return
            time.sleep(_AGAIN_SECONDS)
