"""What one process has done of a section that runs: the bundles that have ended, and the one that it is at.

None of it counts before the section is committed, and tasks that Spark runs again tell it again: it is for
people who watch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import attrs
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_worker.totals import Totals

from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.channel.attempts import Attempt, BundleBroke
from beam_runner_runtime.channel.messages import BundleProgressed, BundleReply
from beam_runner_runtime.tuning import TUNING


class SectionProgress:
    """May be used by several threads.

    Args:
        send: takes what is told.
    """

    def __init__(self, send: Callable[[BundleProgressed], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._attempt: Attempt | None = None
        self._ended = Totals()
        self._told = time.monotonic()

    def of(self, running: LocalBundle) -> BundleProgressed | None:
        """How far a bundle is, of a section or not; None if nobody knows."""
        # First: a bundle that ends between the two is told later, not twice.
        before = self._before(running.attempt)
        progress = running.progress()
        if progress is None or not before:
            return progress
        self._told = time.monotonic()
        together = Totals()
        together.add(before)
        together.add(progress.metrics)
        return attrs.evolve(progress, metrics=together.infos())

    def ended(self, reply: BundleReply | BundleBroke) -> BundleReply | BundleBroke:
        """A bundle of a section has ended; tells so now and then, since most bundles end before anyone looks."""
        if not isinstance(reply, BundleReply):
            return reply
        attempt = Attempt(reply.done.bundle, reply.done.attempt)
        with self._lock:
            if self._attempt != attempt:
                self._attempt, self._ended = attempt, Totals()
            self._ended.add(reply.metrics)
        now = time.monotonic()
        if now >= self._told + TUNING.progress_seconds:
            self._told = now
            self._send(BundleProgressed(attempt, 1.0, 0, self._before(attempt)))
        return reply

    def _before(self, attempt: Attempt) -> tuple[MonitoringInfo, ...]:
        with self._lock:
            return self._ended.infos() if attempt == self._attempt else ()
