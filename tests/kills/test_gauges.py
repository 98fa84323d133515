"""Tests that the trend check distinguishes memory growth from noise."""

from __future__ import annotations

import random

import pytest
from gauges import Sample
from test_soak import trends

STEADY = {"server": 130.0, "java": 380.0, "python": 200.0}


def samples(**last: float) -> list[Sample]:
    """Returns the samples of an hour, in which each figure grows steadily up to the given value."""
    draw = random.Random(1)
    found = []
    for number in range(720):
        part = number / 720

        def figure(name: str, first: float, part: float = part) -> float:
            noise = first * draw.uniform(-0.05, 0.05)
            return first + (last.get(name, first) - first) * part + noise

        found.append(
            Sample(
                5.0 * number,
                1,
                5,
                {kind: figure(kind, size) for kind, size in STEADY.items()},
                round(figure("threads", 130)),
                round(figure("descriptors", 480)),
                round(figure("files", 45)),
                figure("file_megabytes", 8),
            )
        )
    return found


def growing(**last: float) -> list[str]:
    return [f.name for f, factor, slack in trends(samples(**last), []) if f.grows(factor, slack)]


def test_memory_trend_check_accepts_a_flat_gauge() -> None:
    assert growing() == []


@pytest.mark.parametrize(
    ("figure", "last", "name"),
    [
        ("server", 230, "MB of server"),
        ("java", 600, "MB of java"),
        ("python", 300, "MB of python"),
        ("threads", 200, "threads"),
        ("descriptors", 700, "descriptors"),
        ("files", 200, "files"),
        ("file_megabytes", 120, "MB of files"),
    ],
)
def test_memory_trend_check_reports_a_growing_gauge(figure: str, last: float, name: str) -> None:
    assert growing(**{figure: last}) == [name]
