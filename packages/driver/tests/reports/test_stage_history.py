from __future__ import annotations

from beam_runner_engine.scheduler.pending_input import PendingInput
from beam_runner_engine.scheduler.reports import StageReport

from beam_runner_driver.ledger.journal_codec import Tally
from beam_runner_driver.reports.stage_history import POINT_SECONDS, StageHistory


def report(open_bundles: int = 0) -> StageReport:
    return StageReport("s", 0, 1, 2, 0, 0, 0, 0, open_bundles, False)


def test_stage_history_lasts_from_first_bundle_to_last_commit() -> None:
    history = StageHistory()
    history.record_stages(1.0, [report()], {}, {})
    assert history.times == {}
    history.record_stages(2.0, [report(open_bundles=1)], {}, {})
    history.record_stages(3.0, [report()], {"s": Tally(committed=1)}, {})
    history.record_stages(9.0, [report()], {"s": Tally(committed=1)}, {})
    assert (history.times["s"].began, history.times["s"].last) == (2_000, 3_000)


def test_stage_history_counts_bundle_between_two_samples() -> None:
    history = StageHistory()
    history.record_stages(5.0, [report()], {"s": Tally(committed=3)}, {})
    assert (history.times["s"].began, history.times["s"].last) == (5_000, 5_000)


def test_stage_history_points_are_limited_and_cover_one_hour() -> None:
    history = StageHistory()
    for tick in range(4_000):
        pending = {"s": PendingInput(1, tick)}
        tallies = {"s": Tally(committed=tick)}
        history.record_stages(float(tick), [report(1)], tallies, pending)
    (series,) = history.make_time_series()
    assert len(series.points) == 3600 / POINT_SECONDS
    assert series.points[-1] == (3990.0, 2, 3990, 1, 3990)
    assert series.points[0][0] == 400.0
