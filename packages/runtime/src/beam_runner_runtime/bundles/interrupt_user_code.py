"""Interruption of user code that runs in the client's process (LOOPBACK), which the runner must not kill."""

from __future__ import annotations

import time
from collections.abc import Callable

from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.shutdown.limits import LIMITS

_AGAIN_SECONDS = 0.02


class UserCodeInterrupter:
    """Interrupter of user code: splits the running bundle, so that it ends soon, and refuses later
    bundles. Thread-safe.

    Args:
        running: function that returns the current bundle of the process, or None.
    """

    def __init__(self, running: Callable[[], LocalBundle | None]) -> None:
        self._running = running
        self.has_begun = False
        """Whether this worker process refuses new bundles of external SDK harnesses."""

    def refuse_new_bundles(self) -> None:
        """Refuses new bundles for external SDKs, so that this process doesn't continue with the
        residuals of the interrupted bundle.
        """
        self.has_begun = True

    def split_running_bundle(self) -> None:
        """Splits the running bundle, so that it ends after its current element.

        The split is retried for up to `give_up_seconds`, because the SDK can't split a bundle that
        it doesn't know yet.
        """
        until = time.monotonic() + LIMITS.give_up_seconds
        while (running := self._running()) is not None and not running.is_embedded:
            if running.split(0.0).done.residuals or time.monotonic() > until:
                return
            time.sleep(_AGAIN_SECONDS)
