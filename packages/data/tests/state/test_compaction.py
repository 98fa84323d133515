"""Tests of the choice of segments to merge: rarely enough to be cheap, often enough for few segments."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from beam_runner_data.rows.refs import Segment
from beam_runner_data.state.compaction import (
    CompactionPlan,
    CompactionResult,
    find_full_segment_tier,
)
from beam_runner_data.state.store import MERGED_IN_COMMIT


def test_full_tier_search_returns_first_range_with_enough_segments() -> None:
    assert find_full_segment_tier([]) is None
    assert find_full_segment_tier([1] * 7) is None
    assert find_full_segment_tier([1] * 8) == (0, 8)
    assert find_full_segment_tier([10**6] * 7 + [1] * 7) is None, "neither tier is full"
    assert find_full_segment_tier([10**6] * 7 + [1] * 8) == (7, 15)
    assert find_full_segment_tier([1] * 7 + [10**6]) == (0, 8), (
        "older small segments merge with a newer large segment"
    )
    sizes = [5000] * 7 + [600] * 8
    assert find_full_segment_tier(sizes) == (0, 15), "segments that fill the next tier merge, too"
    assert find_full_segment_tier(sizes, most=39800) == (0, 15)
    assert find_full_segment_tier(sizes, most=39799) == (7, 15)
    assert find_full_segment_tier(sizes, most=4799) is None


def test_compaction_result_for_segments_not_in_list_raises_error() -> None:
    a, b, c, d = (Segment(name, 1) for name in "abcd")
    inner = CompactionResult(CompactionPlan((b, c), oldest=False), Segment("m", 2, 1))
    assert inner.replace_segments((a, b, c, d)).segments == (a, Segment("m", 2, 1), d)
    for wrong in [(a, b), (a, b, d, c), (a,), ()]:
        with pytest.raises(ValueError, match="the list lacks the segments"):
            inner.replace_segments(wrong)
    first = CompactionResult(CompactionPlan((b, c), oldest=True), None)
    assert first.replace_segments((b, c, d)).segments == (d,)
    with pytest.raises(ValueError, match="the list lacks the segments"):
        first.replace_segments((a, b, c))


@pytest.mark.parametrize(
    "draw_size",
    [
        lambda draw: 300,
        lambda draw: 110_000,
        lambda draw: draw.choice([10, 300, 5_000, 40_000]),
        lambda draw: int(10 ** draw.uniform(2, 6)),
        lambda draw: int(200 * draw.paretovariate(0.7)),
    ],
    ids=["tiny", "even", "mixed", "log-uniform", "heavy tail"],
)
@pytest.mark.parametrize("most", [0, MERGED_IN_COMMIT])
def test_compaction_rewrites_each_byte_few_times(
    draw_size: Callable[[random.Random], int], most: int
) -> None:
    draw = random.Random(1)
    sizes: list[int] = []
    data = written = 0
    for _ in range(2000):
        sizes.append(draw_size(draw))
        data += sizes[-1]
        run = find_full_segment_tier(sizes, most)
        if run and run[1] == len(sizes):
            sizes[run[0] :] = [sum(sizes[run[0] :])]
        written += sizes[-1]
        while run := find_full_segment_tier(sizes):
            sizes[slice(*run)] = [sum(sizes[slice(*run)])]
            written += sizes[run[0]]
        assert len(sizes) <= 45
    assert written < 5 * data
