from __future__ import annotations

from itertools import pairwise

from beam_runner_model.observation import StageSeries

from beam_runner_jobservices.kept_series import joined, thinned


def series(stage: str, *times: float, committed: bool = False) -> StageSeries:
    return StageSeries(stage, tuple((time, 1, 0, 0, int(time) * committed) for time in times))


def test_a_point_a_minute_of_the_last_hour_is_kept() -> None:
    (found,) = thinned([series("s", *(10.0 * n for n in range(1_000)))])
    times = [point[0] for point in found.points]
    assert len(times) <= 61
    assert times[0] >= 9_990.0 - 3_600.0
    assert all(59.0 <= after - before <= 61.0 for before, after in pairwise(times))


def test_of_many_stages_those_last_at_work_are_kept() -> None:
    idle = [series(f"idle {n}", 0.0, 60.0, 120.0) for n in range(300)]
    busy = [series(f"busy {n}", 0.0, 60.0, 120.0, committed=True) for n in range(50)]
    found = thinned([*idle, *busy, series("empty")])
    assert len(found) == 200
    assert {one.stage for one in busy} <= {one.stage for one in found}


def test_points_of_both_servers_follow_each_other_once() -> None:
    before = [series("a", 0.0, 60.0, 120.0), series("gone", 5.0)]
    since = [series("a", 110.0, 120.0), series("new", 111.0), series("quiet")]
    found = {one.stage: [point[0] for point in one.points] for one in joined(before, since)}
    assert found == {"a": [0.0, 60.0, 110.0, 120.0], "gone": [5.0], "new": [111.0]}


def test_what_is_older_than_an_hour_is_left_out() -> None:
    (found,) = joined([series("a", 0.0, 500.0)], [series("a", 4_000.0)])
    assert [point[0] for point in found.points] == [500.0, 4_000.0]
