"""Timing of progress reports of a source's bundle, which can lead to checkpoints: early if idle,
late if busy.
"""

from __future__ import annotations

from collections.abc import Callable

from beam_runner_model.times import Duration


class ReportTiming:
    """Timing of the progress reports of one bundle. Times are ms since the bundle started.

    The output of a source becomes visible only when its bundle ends. A bundle that waits and has
    output reports from `soonest` on. A bundle that is busy or has no output reports from `latest`
    on, because each checkpoint has a cost. `turn` is the minimum duration of a bundle on a busy
    machine. If the bundle still runs after a report, the split failed. The next report then comes
    after `soonest`, and this pause doubles with each report up to `latest`.
    """

    def __init__(self, soonest: Duration, latest: Duration, turn: float) -> None:
        self._soonest = soonest
        self._latest = latest
        self._again = max(soonest, turn)
        self._pause = soonest

    def is_check_due(self, ran: float, turn: float, is_busy: Callable[[], bool]) -> bool:
        """Returns whether to examine the bundle's progress now. Calls `is_busy` only if its result
        matters.
        """
        if ran < self._again:
            return False
        if not self._is_report_overdue(ran, turn) and is_busy():
            self._again = ran + self._soonest
            return False
        return True

    def should_send_report(self, ran: float, turn: float, *, lingers: bool) -> bool:
        """Returns whether to send a progress report of the bundle now.

        `lingers` means that the bundle waits for input and has uncommitted output.
        """
        told = lingers or self._is_report_overdue(ran, turn)
        self._again = ran + self._pause
        if told:
            self._pause = min(2 * self._pause, self._latest)
        return told

    def _is_report_overdue(self, ran: float, turn: float) -> bool:
        return ran >= max(self._latest, turn)
