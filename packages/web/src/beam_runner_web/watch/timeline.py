"""Timeline of stages (when each stage was active), and charts of the last hour."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs
from beam_runner_jobservices.figures.texts import (
    format_count,
    format_duration,
    format_size,
)
from beam_runner_model.observation import SeriesPoint

from .snapshots import JobSnapshot, compute_point_lag

_BAR_WIDTH = 480
_THINNEST = 2.0
_CHART_WIDTH, _CHART_HEIGHT = 220, 40
_MOST_POINTS = 120


@attrs.frozen
class TimelineBar:
    """A stage in the timeline; `start` and `end` are seconds since the first stage began."""

    name: str
    anchor: str
    start: float
    end: float
    x: float
    width: float


@attrs.frozen
class StageTimeline:
    """The stages in the order in which they began; `seconds` is the total duration."""

    bars: tuple[TimelineBar, ...]
    seconds: float


@attrs.frozen
class SeriesChart:
    """A chart line: `points` within `width` and `height`, and its last and largest values as texts."""

    label: str
    points: tuple[tuple[float, float], ...]
    last: str
    most: str
    seconds: float
    width: int = _CHART_WIDTH
    height: int = _CHART_HEIGHT


def make_stage_timeline(snapshot: JobSnapshot) -> StageTimeline | None:
    """Returns the times at which the stages were active; None if the server doesn't report these
    times.
    """
    found = [one for one in snapshot.figures.stages if one.began is not None]
    if not found:
        return None
    first = min(one.began or 0 for one in found)
    whole = max(1, max(one.last or one.began or 0 for one in found) - first)
    bars = []
    for one in sorted(found, key=lambda stage: (stage.began or 0, stage.id)):
        start = (one.began or 0) - first
        end = max(start, (one.last or 0) - first)
        x = start / whole * (_BAR_WIDTH - _THINNEST)
        width = max(_THINNEST, end / whole * _BAR_WIDTH - x)
        place = (start / 1000, end / 1000, round(x, 1), round(width, 1))
        bars.append(TimelineBar(one.name, one.anchor, *place))
    return StageTimeline(tuple(bars), whole / 1000)


def make_stage_charts(snapshot: JobSnapshot, stage_id: str) -> tuple[SeriesChart, ...]:
    """Returns charts of a stage: watermark lag, waiting elements, and bundles per second, without empty charts."""
    points = tuple(iterate_series_points(snapshot, stage_id))
    lines: tuple[tuple[str, list[tuple[float, float]], Callable[[float], str]], ...] = (
        (
            "watermark behind",
            [(p[0], lag) for p in points if (lag := compute_point_lag(p)) is not None],
            format_duration,
        ),
        ("waiting", [(point[0], point[2]) for point in points], format_size),
        ("bundles per second", list(_compute_commit_rates(points)), format_count),
    )
    return tuple(
        _make_chart(label, found, text)
        for label, found, text in lines
        if len(found) > 1 and any(value for _, value in found)
    )


def iterate_series_points(snapshot: JobSnapshot, stage_id: str) -> Iterator[SeriesPoint]:
    """Returns the history of a stage from the server and from later samples, oldest first."""
    yield from snapshot.history.get(stage_id, ())
    for sample in snapshot.samples:
        for one in sample.figures.stages:
            if one.id == stage_id and one.output_watermark is not None:
                yield (
                    sample.time,
                    one.output_watermark,
                    one.waiting_bytes or 0,
                    one.open_bundles or 0,
                    one.committed or 0,
                )


def _compute_commit_rates(points: tuple[SeriesPoint, ...]) -> Iterator[tuple[float, float]]:
    """Returns the bundles committed per second, over intervals of at least 10 s to reduce noise."""
    before = points[0] if points else None
    for point in points:
        if before is not None and point[0] - before[0] >= 9.0:
            yield point[0], max(0, point[4] - before[4]) / (point[0] - before[0])
            before = point


def _make_chart(
    label: str, found: list[tuple[float, float]], text: Callable[[float], str]
) -> SeriesChart:
    last = found[-1]
    every = -(-len(found) // _MOST_POINTS)
    shown = [*found[:-1:every], last]
    first, most = found[0][0], max(value for _, value in found)
    wide = last[0] - first or 1
    points = tuple(
        (
            round((at - first) / wide * _CHART_WIDTH, 1),
            round(_CHART_HEIGHT - 1 - value / most * (_CHART_HEIGHT - 3), 1),
        )
        for at, value in shown
    )
    return SeriesChart(label, points, text(last[1]), text(most), wide)
