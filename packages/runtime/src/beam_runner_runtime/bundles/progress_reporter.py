"""Progress reports of the running bundle to the server: every half second, and sooner for some
sources.

The output of a streaming source becomes visible only when its bundle ends. Therefore, the server
splits the bundle at a progress report. The engine decides when to send this report. This module
detects whether the source is idle.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container

import attrs
from beam_runner_engine.dispatch.reporting import ReportTiming
from beam_runner_urns import metrics as urns
from beam_runner_worker.core_times import read_thread_time

from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.channel.messages import BundleProgressed
from beam_runner_runtime.cpu_contention import CpuSlowdown
from beam_runner_runtime.tuning import TUNING

_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class _SourceReports:
    """State of the progress reports for one bundle of a source.

    Attributes:
        running: the bundle.
        reports: schedule of the reports.
        wanted: seconds for which the bundle's thread used or waited for a CPU, at the first check;
            None if unknown.
        seen: age of the bundle in seconds at the first check.
    """

    running: LocalBundle
    reports: ReportTiming
    wanted: float | None
    seen: float

    @classmethod
    def start_reports(cls, running: LocalBundle, least: float) -> _SourceReports:
        """Returns the state of a bundle at the first check. ``least`` is the minimum duration (ms)
        of a source's bundle.
        """
        latest = int(1000 * TUNING.progress_seconds)
        told = read_thread_time(running.thread)
        wanted = None if told is None else told.demanded_seconds
        reports = ReportTiming(TUNING.lingers_ms, latest, least)
        return cls(running, reports, wanted, running.elapsed / 1000)


class ProgressReporter:
    """Reporter of bundle progress, which runs in a separate thread. Other threads call only
    :meth:`notify_bundle_start`.

    Args:
        running: function that returns the current bundle, or None.
        progress: function that returns the progress of a bundle, or None if unknown.
        send: function that sends a report to the server.
        sources: IDs of stages whose bundles can run without end.
        in_turns: whether bundles share the GIL of one interpreter, so that reports are sent sooner.
    """

    def __init__(
        self,
        running: Callable[[], LocalBundle | None],
        progress: Callable[[LocalBundle], BundleProgressed | None],
        send: Callable[[BundleProgressed], None],
        sources: Container[str],
        *,
        in_turns: bool,
    ) -> None:
        self._running = running
        self._progress = progress
        self._send = send
        self._sources = sources
        # If bundles share the GIL, report early whether a bundle leaves CPU time to other bundles.
        self._after = TUNING.progress_in_turns_ms if in_turns else 1000 * TUNING.progress_seconds
        self._begun = threading.Event()
        self._source_reports: _SourceReports | None = None
        self._slowness = CpuSlowdown()

    def notify_bundle_start(self, stage_id: str) -> None:
        """Called when a bundle of a stage starts."""
        if stage_id in self._sources:
            self._begun.set()

    def run(self) -> None:
        """Sends reports until the process exits."""
        while True:
            running = self._running()
            if self._source_reports is not None and self._source_reports.running is not running:
                self._source_reports = (
                    None  # Drop the reference: a finished bundle retains all of its data in memory.
                )
            if self._begun.wait(self._compute_seconds_to_next_check(running)):
                self._begun.clear()
            elif running is not None and running is self._running():
                try:
                    self.report_if_due(running)
                except Exception:
                    # The thread that runs the bundle reports its failure.
                    _LOGGER.debug(
                        "can't read the progress of bundle %s", running.bundle_id, exc_info=True
                    )

    def _compute_seconds_to_next_check(self, running: LocalBundle | None) -> float:
        """Returns the time (s) to the next check of the current bundle, if a bundle runs."""
        is_source = running is not None and running.stage_id in self._sources
        return TUNING.source_look_seconds if is_source else TUNING.progress_seconds

    def report_if_due(self, running: LocalBundle) -> None:
        """Sends a progress report of the current bundle if a report is due."""
        if running.stage_id in self._sources:
            self._report_source(running)
            return
        if running.elapsed < self._after:
            return
        progress = self._progress(running)
        if progress is not None:
            self._send(progress)

    def _report_source(self, running: LocalBundle) -> None:
        elapsed, least = running.elapsed, 1000 * self._slowness.compute_bundle_seconds(0.0)
        turn = self._source_reports
        if turn is None:
            turn = self._source_reports = _SourceReports.start_reports(running, least)
        embedded = running.is_embedded
        if not turn.reports.is_check_due(elapsed, least, lambda: embedded and _is_busy(turn)):
            return
        progress = self._progress(running)
        if progress is None:
            return
        # The activity of an external SDK is visible only in its progress report.
        waits = not _is_busy(turn) if embedded else progress.waits is True
        lingers = waits and _has_output(progress)
        if turn.reports.should_send_report(elapsed, least, lingers=lingers):
            self._send(attrs.evolve(progress, lingers=lingers))


def _is_busy(turn: _SourceReports) -> bool:
    """Returns whether user code in this process needs at least half a core. Returns True if the CPU time is unknown."""
    told = read_thread_time(turn.running.thread)
    if told is None or turn.wanted is None:
        return True
    since = turn.running.elapsed / 1000 - turn.seen
    return told.demanded_seconds - turn.wanted > TUNING.source_busy_share * since


def _has_output(progress: BundleProgressed) -> bool:
    """Returns whether the bundle has emitted an element: any PCollection except the input has elements."""
    return any(
        info.urn == urns.ELEMENT_COUNT and info.payload != b"\x00" for info in progress.metrics
    )
