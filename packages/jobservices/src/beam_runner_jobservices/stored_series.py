"""Stored time series of a job's stages, which a restarted server shows: one point per minute for the last hour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
from beam_runner_model.observation import SeriesPoint, StageTimeSeries

_SECONDS = 3_600.0
_POINT_SECONDS = 60.0
_MOST_STAGES = 200


def downsample_series(series: Iterable[StageTimeSeries]) -> tuple[StageTimeSeries, ...]:
    """Returns the series to store: at most 60 points for each of the 200 most recently active stages."""
    found = [one for one in series if one.points]
    found.sort(key=_find_last_activity, reverse=True)
    end = max((one.points[-1][0] for one in found), default=0.0)
    return tuple(
        attrs.evolve(one, points=tuple(_select_spaced_points(one.points, end - _SECONDS)))
        for one in found[:_MOST_STAGES]
    )


def join_series(
    before: Iterable[StageTimeSeries], since: Iterable[StageTimeSeries]
) -> tuple[StageTimeSeries, ...]:
    """Returns the combined series of an earlier server and of this one, the last hour of each stage."""
    found = {one.stage: one for one in before}
    for one in since:
        if one.points:
            known = found.get(one.stage)
            began, end = one.points[0][0], one.points[-1][0]
            earlier = (
                point
                for point in (known.points if known else ())
                if end - _SECONDS <= point[0] < began
            )
            found[one.stage] = attrs.evolve(one, points=(*earlier, *one.points))
    return tuple(found.values())


def _find_last_activity(series: StageTimeSeries) -> float:
    """Returns the time at which a stage last ran or committed a bundle."""
    last = 0.0
    for point, after in zip(series.points, series.points[1:] or series.points, strict=False):
        if after[3] or after[4] != point[4]:
            last = after[0]
    return last


def _select_spaced_points(points: Iterable[SeriesPoint], begin: float) -> Iterator[SeriesPoint]:
    """Returns the points since `begin` that are at least a minute apart."""
    next_ = begin
    for point in points:
        if point[0] >= next_:
            yield point
            next_ = point[0] + _POINT_SECONDS - 1.0
