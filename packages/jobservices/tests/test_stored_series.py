from __future__ import annotations

from itertools import pairwise

from beam_runner_model.observation import StageTimeSeries

from beam_runner_jobservices.stored_series import downsample_series, join_series


def series(stage: str, *times: float, committed: bool = False) -> StageTimeSeries:
    return StageTimeSeries(stage, tuple((time, 1, 0, 0, int(time) * committed) for time in times))


def test_stage_series_retains_one_point_per_minute_of_last_hour() -> None:
    (found,) = downsample_series([series("s", *(10.0 * n for n in range(1_000)))])
    times = [point[0] for point in found.points]
    assert len(times) <= 61
    assert times[0] >= 9_990.0 - 3_600.0
    assert all(59.0 <= after - before <= 61.0 for before, after in pairwise(times))


def test_stage_series_limit_retains_most_recently_active_stages() -> None:
    idle = [series(f"idle {n}", 0.0, 60.0, 120.0) for n in range(300)]
    busy = [series(f"busy {n}", 0.0, 60.0, 120.0, committed=True) for n in range(50)]
    found = downsample_series([*idle, *busy, series("empty")])
    assert len(found) == 200
    assert {one.stage for one in busy} <= {one.stage for one in found}


def test_stage_series_of_two_servers_are_joined_without_duplicate_points() -> None:
    before = [series("a", 0.0, 60.0, 120.0), series("gone", 5.0)]
    since = [series("a", 110.0, 120.0), series("new", 111.0), series("quiet")]
    found = {one.stage: [point[0] for point in one.points] for one in join_series(before, since)}
    assert found == {"a": [0.0, 60.0, 110.0, 120.0], "gone": [5.0], "new": [111.0]}


def test_stage_series_points_older_than_one_hour_are_dropped() -> None:
    (found,) = join_series([series("a", 0.0, 500.0)], [series("a", 4_000.0)])
    assert [point[0] for point in found.points] == [500.0, 4_000.0]
