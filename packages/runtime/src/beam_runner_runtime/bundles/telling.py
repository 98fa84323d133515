"""Tells the server how far the bundle of this process is: every half second, and sooner where it counts.

A stream's source hands on what it has put out when its bundle ends, and that is checkpointed when it
tells how far it is. When it does is the engine's rule; here is seen whether it waits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container

import attrs
from beam_runner_engine.dispatch.reporting import ReportTiming
from beam_runner_urns import metrics as urns
from beam_runner_worker.core_times import core_time

from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.channel.messages import BundleProgressed
from beam_runner_runtime.slowness import Slowness
from beam_runner_runtime.tuning import TUNING

_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class _Turn:
    """What is known of a source's bundle.

    Attributes:
        reports: when it tells.
        wanted: what its thread had wanted of a core, in seconds, when it was first seen.
        seen: how long it had run by then, in seconds.
    """

    running: LocalBundle
    reports: ReportTiming
    wanted: float | None
    seen: float

    @classmethod
    def beginning(cls, running: LocalBundle, least: float) -> _Turn:
        """One that is first seen now, where a turn lasts so long (ms) at least."""
        latest = int(1000 * TUNING.progress_seconds)
        told = core_time(running.thread)
        wanted = None if told is None else told.wanted
        reports = ReportTiming(TUNING.lingers_ms, latest, least)
        return cls(running, reports, wanted, running.elapsed / 1000)


class ProgressTeller:
    """Belongs to a thread of its own, but for :meth:`begins`.

    Args:
        running: the bundle that runs, if one does.
        progress: how far one is; None if nobody knows.
        send: takes what is told.
        sources: the stages of which bundles may go on without end.
        in_turns: whether bundles take turns at one interpreter; then they tell sooner.
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
        # Where bundles take turns, it counts how soon one shows that it leaves time to others.
        self._after = TUNING.progress_in_turns_ms if in_turns else 1000 * TUNING.progress_seconds
        self._begun = threading.Event()
        self._turn: _Turn | None = None
        self._slowness = Slowness()

    def begins(self, stage_id: str) -> None:
        """A bundle of a stage begins."""
        if stage_id in self._sources:
            self._begun.set()

    def run(self) -> None:
        """Tells for as long as the process lives."""
        while True:
            running = self._running()
            if self._turn is not None and self._turn.running is not running:
                self._turn = None  # An ended bundle keeps in memory all that it had.
            if self._begun.wait(self._pause(running)):
                self._begun.clear()
            elif running is not None and running is self._running():
                try:
                    self.look(running)
                except Exception:
                    # The bundle's own thread tells what is wrong with it.
                    _LOGGER.debug("no progress of %s", running.bundle_id, exc_info=True)

    def _pause(self, running: LocalBundle | None) -> float:
        """For how long (s) the bundle that runs, if one does, is not looked at."""
        is_source = running is not None and running.stage_id in self._sources
        return TUNING.source_look_seconds if is_source else TUNING.progress_seconds

    def look(self, running: LocalBundle) -> None:
        """Tells how far the bundle that runs is, if it is time to."""
        if running.stage_id in self._sources:
            self._look_at_source(running)
            return
        if running.elapsed < self._after:
            return
        progress = self._progress(running)
        if progress is not None:
            self._send(progress)

    def _look_at_source(self, running: LocalBundle) -> None:
        elapsed, least = running.elapsed, 1000 * self._slowness.turn(0.0)
        turn = self._turn
        if turn is None:
            turn = self._turn = _Turn.beginning(running, least)
        embedded = running.embedded
        if not turn.reports.is_due(elapsed, least, lambda: embedded and _is_busy(turn)):
            return
        progress = self._progress(running)
        if progress is None:
            return
        # Whether an SDK elsewhere waits is known only where it was seen.
        waits = not _is_busy(turn) if embedded else progress.waits is True
        lingers = waits and _has_output(progress)
        if turn.reports.should_report(elapsed, least, lingers=lingers):
            self._send(attrs.evolve(progress, lingers=lingers))


def _is_busy(turn: _Turn) -> bool:
    """Whether user code in this process wants half a core; where that is not known it does."""
    told = core_time(turn.running.thread)
    if told is None or turn.wanted is None:
        return True
    since = turn.running.elapsed / 1000 - turn.seen
    return told.wanted - turn.wanted > TUNING.source_busy_share * since


def _has_output(progress: BundleProgressed) -> bool:
    """Whether any PCollection beside its input has an element."""
    return any(
        info.urn == urns.ELEMENT_COUNT and info.payload != b"\x00" for info in progress.metrics
    )
