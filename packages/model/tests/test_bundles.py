"""Tests of the titles of stages."""

from __future__ import annotations

import pytest

from beam_runner_model.stages import HarnessStage, InputEdge, InputKind


@pytest.mark.parametrize(
    ("count", "title"),
    [
        (1, "t0"),
        (6, "t0 + t1 + t2 + t3 + t4 + t5"),
        (7, "t0 ... t6 (7 transforms)"),
        (5000, "t0 ... t4999 (5,000 transforms)"),
    ],
)
def test_stage_title_with_many_transforms_is_shortened(count: int, title: str) -> None:
    name = " + ".join(f"t{number}" for number in range(count))
    edge = InputEdge("read", InputKind.ELEMENTS)
    assert HarnessStage("s", name, "e", b"", edge, ()).title == title
