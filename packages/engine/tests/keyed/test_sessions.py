"""Tests of sessions in grouping with triggers: which windows merge, and which panes result."""

from __future__ import annotations

from itertools import accumulate

import attrs
import pytest
from beam_runner_model import triggers as t
from beam_runner_model.panes import PaneTiming
from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.triggers import Trigger, may_fire_early
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import OpaqueWindows, Sessions
from beam_runner_model.windows import IntervalWindow
from hypothesis import example, given
from hypothesis import strategies as st

from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import WindowPane
from beam_runner_engine.keyed.merging import SessionMerger
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.testing.stores import MemoryCellStore

from .test_oracle import STRATEGIES
from .triggering import KEY, OurRun, Watermark, fired

GAP = 7
GROWING = st.lists(
    st.integers(-4, 5) | st.sampled_from([1, 1, 1, 30, -30]), min_size=5, max_size=60
)
"""Distance of each element from the previous element; most elements extend the session of the
previous element.
"""


def sessions(
    combiner: TimestampCombiner = TimestampCombiner.END_OF_WINDOW,
) -> WindowingStrategy:
    return WindowingStrategy(
        Sessions(GAP),
        merge_status=MergeStatus.NEEDS_MERGE,
        allowed_lateness=9,
        timestamp_combiner=combiner,
    )


@given(STRATEGIES.filter(lambda s: not may_fire_early(s.trigger)), GROWING, st.integers(1, 9))
@example(sessions(), [9, 1, 1, -6, -5, 99, 1], 5).via("goes back")
@example(sessions(TimestampCombiner.LATEST), [0, 20, -20, 6, 6, 6], 4).via("meets the next")
@example(sessions(TimestampCombiner.EARLIEST), [0, 20, -6, -6, -6], 3).via("meets the one before")
def test_session_panes_do_not_depend_on_call_boundaries(
    strategy: WindowingStrategy, steps: list[int], size: int
) -> None:
    """Uses sessions that grow and merge, in one call or several calls, and fire at the end."""
    strategy = attrs.evolve(strategy, window_fn=Sessions(GAP), merge_status=MergeStatus.NEEDS_MERGE)
    times = list(accumulate(steps))
    windows = [encode_window(IntervalWindow(time, time + GAP)) for time in times]
    values = list(range(len(times)))

    def run(size: int) -> tuple[list[WindowPane], ShardSummary]:
        grouper = TriggeredGrouper(strategy, MemoryCellStore())
        for start in range(0, len(times), size):
            some = slice(start, start + size)
            keys = [KEY] * len(times[some])
            assert not grouper.process_elements(
                keys, windows[some], times[some], values[some], CurrentTimes()
            )
        panes = grouper.advance_time(CurrentTimes(MAX_TIMESTAMP))
        return [group._replace(values=sorted(group.values)) for group in panes], (
            grouper.finish_bundle().summary
        )

    assert run(size) == run(1) == run(len(times))


END, ONCE = t.AfterEndOfWindow(), t.AfterCount(1)
ON_TIME, EARLY, LATE = "ON_TIME", "EARLY", "LATE"


@pytest.mark.parametrize(
    ("trigger", "steps", "expected", "dropped"),
    [
        pytest.param(
            END,
            [0, Watermark(8), 9, 6, Watermark(30)],
            [((0, 7), (0,), ON_TIME), ((6, 16), (2, 3), ON_TIME)],
            0,
            id="on-time-element-that-a-late-one-joins-to-it",
        ),
        pytest.param(
            END,
            [0, Watermark(8), 1],
            [((0, 7), (0,), ON_TIME), ((1, 8), (2,), LATE)],
            0,
            id="late-element-that-overlaps-it",
        ),
        pytest.param(
            END,
            [0, Watermark(8), 0, 0],
            [((0, 7), (0,), ON_TIME)],
            2,
            id="late-elements-in-the-very-window",
        ),
        pytest.param(
            END,
            [0, 6, Watermark(14), 0, 6, 0, Watermark(30)],
            [((0, 13), (0, 1), ON_TIME), ((0, 7), (3,), LATE), ((6, 13), (4,), LATE)],
            1,
            id="late-elements-that-have-windows-in-it",
        ),
        pytest.param(
            t.AfterCount(2),
            [2, 2, 1, 2, 3],
            [((2, 9), (0, 1), EARLY), ((1, 9), (2, 3), EARLY), ((3, 10), (4,), ON_TIME)],
            0,
            id="windows-around-it",
        ),
        pytest.param(
            t.AfterCount(2),
            [0, 5, 5, 4, 0, 1, Watermark(40)],
            [((0, 12), (0, 1), EARLY), ((4, 12), (2, 3), EARLY), ((0, 8), (4, 5), EARLY)],
            0,
            id="one-after-the-other",
        ),
        pytest.param(
            t.AfterCount(3),
            [0, 5, 5, 0, 5, Watermark(40)],
            [((0, 12), (0, 1, 2), EARLY), ((0, 12), (3, 4), ON_TIME)],
            0,
            id="open-sessions-that-become-the-same",
        ),
        pytest.param(
            ONCE,
            [3, 5, 5],
            [((3, 10), (0,), EARLY), ((5, 12), (1,), EARLY)],
            1,
            id="element-by-one",
        ),
    ],
)
@pytest.mark.parametrize("one_bundle", [True, False])
@pytest.mark.parametrize("custom", [False, True], ids=["sessions", "custom"])
def test_session_with_a_finished_trigger_does_not_merge(
    trigger: Trigger,
    steps: list[int | Watermark],
    expected: list[tuple[tuple[int, int], tuple[int, ...], str]],
    dropped: int,
    one_bundle: bool,
    custom: bool,
) -> None:
    """Checks the behavior of Java's runners. An element with exactly the finished window is
    dropped.
    """
    strategy = attrs.evolve(sessions(), trigger=trigger, allowed_lateness=1000)
    if custom:
        strategy = attrs.evolve(strategy, window_fn=OpaqueWindows("sessions of an SDK's own"))
    run = OurRun(strategy, SessionMerger(), one_bundle=one_bundle)
    panes = []
    for number, step in enumerate([*steps, Watermark(MAX_TIMESTAMP)]):
        if isinstance(step, Watermark):
            groups = run.step(number, step)
        else:
            groups = run.element(number, step, [IntervalWindow(step, step + GAP)])
        panes += fired(strategy, number, groups)
    run.commit()
    assert [(pane.window, pane.values, pane.timing) for pane in panes] == expected
    assert (run.dropped, run.store.copy_cells(), run.summary) == (dropped, {}, EMPTY_SUMMARY)


def test_ended_session_that_is_extended_fires_at_its_new_end() -> None:
    run = OurRun(
        WindowingStrategy(
            Sessions(7),
            merge_status=MergeStatus.NEEDS_MERGE,
            trigger=t.AfterEach((t.AfterEndOfWindow(), t.Repeatedly(t.AfterCount(1)))),
            allowed_lateness=100,
        )
    )
    run.element(0, 0)
    assert [pane.values for pane in run.time(watermark=8)] == [(0,)]
    assert run.element(1, 5) == []
    (pane,) = run.time(watermark=20)
    assert (pane.values, pane.pane.timing) == ((1,), PaneTiming.ON_TIME)
    (pane,) = run.element(2, 6)
    assert (pane.values, pane.pane.timing) == ((2,), PaneTiming.LATE)


def test_session_merges_only_overlapping_sessions() -> None:
    """Uses many sessions of a key, out of order, including an element that connects two sessions
    and an element inside a session.
    """
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
