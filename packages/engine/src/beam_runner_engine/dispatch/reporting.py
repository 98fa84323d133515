"""When the bundle of a source tells how far it is, and so can be checkpointed: soon where it waits, late where it is busy."""

from __future__ import annotations

from collections.abc import Callable

from beam_runner_model.times import Duration


class SourceReports:
    """Those of one bundle; times are how long (ms) it has run by then.

    What a source has put out is seen once its bundle has ended. One that waits and has put out something tells from
    `soonest` on; one that is busy, for which each turn is a cost, or has put out nothing, from `latest` on. `turn` is
    how long one is to last at least, on a crowded machine, where it costs more. One that is still there after it has told could
    not be split: it is left alone for `soonest`, then for twice as long each time, up to `latest`.
    """

    def __init__(self, soonest: Duration, latest: Duration, turn: float) -> None:
        self._soonest = soonest
        self._latest = latest
        self._again = max(soonest, turn)
        self._pause = soonest

    def is_due(self, ran: float, turn: float, is_busy: Callable[[], bool]) -> bool:
        """Says whether it is to be looked at how far the bundle is; `is_busy` is asked only where it counts."""
        if ran < self._again:
            return False
        if not self._is_late(ran, turn) and is_busy():
            self._again = ran + self._soonest
            return False
        return True

    def tells(self, ran: float, turn: float, *, lingers: bool) -> bool:
        """Says whether what was found when it was due is told; `lingers`: it waits and has put out something."""
        told = lingers or self._is_late(ran, turn)
        self._again = ran + self._pause
        if told:
            self._pause = min(2 * self._pause, self._latest)
        return told

    def _is_late(self, ran: float, turn: float) -> bool:
        return ran >= max(self._latest, turn)
