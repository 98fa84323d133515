"""Progress of a section in one worker process: its finished bundles and its current bundle.

The progress is only for display, because Spark can run a task again, which then reports the same
progress twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import attrs
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_worker.totals import Totals

from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.channel.attempts import Attempt, BundleFailure
from beam_runner_runtime.channel.messages import BundleProgressed, BundleReply
from beam_runner_runtime.tuning import TUNING


class SectionProgress:
    """Reporter of the progress of bundles in a section (a Spark job), in one worker process;
    thread-safe.

    Args:
        send: function that sends a progress report to the server.
    """

    def __init__(self, send: Callable[[BundleProgressed], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._attempt: Attempt | None = None
        self._ended = Totals()
        self._told = time.monotonic()

    def read_progress(self, running: LocalBundle) -> BundleProgressed | None:
        """Returns the progress of a bundle, in a section (Spark job) or on a lane; None if unknown."""
        # Read the metrics of earlier bundles before the progress of the current bundle. Then a
        # bundle that finishes in between is reported late, but not twice.
        before = self._read_earlier_metrics(running.attempt)
        progress = running.get_progress()
        if progress is None or not before:
            return progress
        self._told = time.monotonic()
        together = Totals()
        together.add(before)
        together.add(progress.metrics)
        return attrs.evolve(progress, metrics=together.infos())

    def record_bundle_end(self, reply: BundleReply | BundleFailure) -> BundleReply | BundleFailure:
        """Called when a bundle of a section finishes.

        Sends a progress report at most every ``progress_seconds``, because most bundles finish
        between two polls.
        """
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
            self._send(BundleProgressed(attempt, 1.0, 0, self._read_earlier_metrics(attempt)))
        return reply

    def _read_earlier_metrics(self, attempt: Attempt) -> tuple[MonitoringInfo, ...]:
        with self._lock:
            return self._ended.infos() if attempt == self._attempt else ()
