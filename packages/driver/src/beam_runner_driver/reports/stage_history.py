"""History of a job's stages: first and latest activity, and a time series of their progress.

The series has a point for every 10 s of the last hour. A point takes a few microseconds per stage.
The history is recorded even without a client, so that a new client can show the past hour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import attrs
from beam_runner_engine.scheduler.pending_input import PendingInput
from beam_runner_engine.scheduler.reports import StageReport
from beam_runner_model.observation import StageTimeSeries

from beam_runner_driver.ledger.journal_codec import Tally

POINT_SECONDS = 10.0
_POINTS = 360


@attrs.define
class StageTimes:
    """Times of a stage's first and latest observed activity (wall-clock ms)."""

    began: int
    last: int


class StageHistory:
    """Recorder of the stages' activity and progress. Only the job's thread can call
    `record_stages`; any thread can use `make_time_series` and `times`.
    """

    def __init__(self) -> None:
        self.times: dict[str, StageTimes] = {}
        self._committed: dict[str, int] = {}
        self._points: dict[str, deque[tuple[float, int, int, int, int]]] = {}
        self._next_point = 0.0

    def record_stages(
        self,
        now: float,
        reports: Iterable[StageReport],
        tallies: Mapping[str, Tally],
        pending: Mapping[str, PendingInput],
    ) -> None:
        """Records the progress of the stages, with their unprocessed input, at wall-clock time `now`
        (seconds).
        """
        is_due = now >= self._next_point
        if is_due:
            self._next_point = now + POINT_SECONDS
        moment = int(now * 1000)
        for report in reports:
            stage = report.stage
            committed = tallies.get(stage, Tally()).committed
            if report.open_bundles or committed != self._committed.get(stage, 0):
                known = self.times.get(stage)
                if known is None:
                    self.times[stage] = StageTimes(moment, moment)
                else:
                    known.last = moment
                self._committed[stage] = committed
            if is_due:
                points = self._points.setdefault(stage, deque(maxlen=_POINTS))
                mark = report.output_watermark
                size = pending.get(stage, PendingInput()).size
                points.append((round(now, 1), mark, size, report.open_bundles, committed))

    def make_time_series(self) -> tuple[StageTimeSeries, ...]:
        """Returns the time series of all stages, oldest point first."""
        return tuple(
            StageTimeSeries(stage, tuple(points.copy()))
            for stage, points in dict(self._points).items()
        )
