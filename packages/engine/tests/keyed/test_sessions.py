"""Sessions in triggered grouping: which windows an element meets, and what merging loses."""

from __future__ import annotations

from beam_runner_engine.values import triggers as t
from beam_runner_engine.values.strategy import MergeStatus, WindowingStrategy
from beam_runner_engine.values.times import MAX_TIMESTAMP
from beam_runner_engine.values.window_coders import encode_window
from beam_runner_engine.values.window_fns import Sessions
from beam_runner_engine.values.windows import IntervalWindow

from .triggering import OurRun


def test_what_waits_in_a_session_that_merges_with_a_finished_one_is_counted_as_dropped() -> None:
    run = OurRun(
        WindowingStrategy(
            Sessions(7), merge_status=MergeStatus.NEEDS_MERGE, trigger=t.AfterCount(2)
        )
    )
    (pane,) = [pane for number, time in enumerate((0, 0, 7)) for pane in run.element(number, time)]
    assert (pane.values, run.element(3, 1), run.dropped) == ((0, 1), [], 2)
    assert run.time(watermark=MAX_TIMESTAMP) == []


def test_a_session_meets_only_those_it_overlaps() -> None:
    """Among many sessions of a key, out of order: one that bridges two, one that is in one."""
    run = OurRun(
        WindowingStrategy(
            Sessions(10), merge_status=MergeStatus.NEEDS_MERGE, trigger=t.AfterCount(10**6)
        )
    )
    for number, time in enumerate((400, 0, 200, 100, 300, 109, 118, 309, 210, 219, 305)):
        run.element(number, time)
    sessions = {group.window: sorted(group.values) for group in run.time(watermark=MAX_TIMESTAMP)}
    assert sessions == {
        encode_window(IntervalWindow(start, end)): values
        for start, end, values in (
            (0, 10, [1]),
            (100, 128, [3, 5, 6]),
            (200, 210, [2]),
            (210, 229, [8, 9]),
            (300, 319, [4, 7, 10]),
            (400, 410, [0]),
        )
    }
