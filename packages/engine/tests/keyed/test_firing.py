"""Tests of pane timing: early panes, at most one on-time pane, then late panes, as in Java's
`PaneInfoTracker`.
"""

from __future__ import annotations

import attrs
import pytest
from beam_runner_model import triggers as t
from beam_runner_model.panes import PaneTiming
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.triggers import Trigger
from beam_runner_model.window_fns import FixedWindows
from beam_runner_model.windows import IntervalWindow

from beam_runner_engine.keyed.now import CurrentTimes

from .triggering import OurRun, ProcessingTime, Step, Watermark, fired

FIXED = WindowingStrategy(FixedWindows(10), allowed_lateness=20)
TWO = t.Repeatedly(t.AfterCount(2))
SOON = t.Repeatedly(t.AfterProcessingTime((t.Delay(5),)))
BOTH = t.AfterAll((t.AfterCount(2), t.AfterEndOfWindow()))


@pytest.mark.parametrize(
    ("trigger", "steps", "expected"),
    [
        pytest.param(
            TWO,
            [1, Watermark(10), 2, 3, 4],
            ["ON_TIME 0 0 at 9: 0 2", "LATE 1 1 at 9: 3 4"],
            id="element-on-time-waits-for-a-late-one",
        ),
        pytest.param(
            TWO,
            [1, 2, 3, Watermark(10), 4, 5, 6],
            ["EARLY 0 -1 at 9: 0 1", "ON_TIME 1 0 at 9: 2 4", "LATE 2 1 at 9: 5 6"],
            id="after-an-early-pane",
        ),
        pytest.param(
            TWO,
            [Watermark(10), 1, 2, 3, Watermark(30)],
            ["LATE 0 0 at 9: 1 2", "LATE 1 1 at 9: 3"],
            id="late-elements-only",
        ),
        pytest.param(
            TWO,
            [1, 2, Watermark(10), 3, 4],
            ["EARLY 0 -1 at 9: 0 1", "LATE 1 0 at 9: 3 4"],
            id="late-elements-only-after-an-early-pane",
        ),
        pytest.param(
            TWO,
            [1, Watermark(10), Watermark(30)],
            ["ON_TIME 0 0 at 9: 0"],
            id="element-on-time-waits-until-the-window-closes",
        ),
        pytest.param(
            SOON,
            [1, Watermark(10), ProcessingTime(5), 2, ProcessingTime(10)],
            ["ON_TIME 0 0 at 9: 0", "LATE 1 1 at 9: 3"],
            id="clock-fires-after-the-end",
        ),
        pytest.param(
            SOON,
            [1, ProcessingTime(5), Watermark(10), 2, ProcessingTime(10)],
            ["EARLY 0 -1 at 9: 0", "LATE 1 0 at 9: 3"],
            id="clock-fires-before-the-end",
        ),
        pytest.param(
            BOTH,
            [1, Watermark(10), 2],
            ["ON_TIME 0 0 at 9: 0 2"],
            id="end-is-not-enough",
        ),
        pytest.param(
            t.DefaultTrigger(),
            [1, Watermark(10), 2],
            ["ON_TIME 0 0 at 9: 0", "LATE 1 1 at 9: 2"],
            id="end-fires",
        ),
    ],
)
@pytest.mark.parametrize("one_bundle", [True, False])
def test_first_pane_with_an_on_time_element_is_on_time(
    trigger: Trigger, steps: list[int | Step], expected: list[str], one_bundle: bool
) -> None:
    strategy = attrs.evolve(FIXED, trigger=trigger)
    run = OurRun(strategy, one_bundle=one_bundle)
    panes = []
    for number, step in enumerate(steps):
        groups = run.element(number, step) if isinstance(step, int) else run.step(number, step)
        panes += fired(strategy, number, groups)
    assert [
        f"{pane.timing} {pane.index} {pane.nonspeculative_index} at {pane.timestamp}: "
        + " ".join(map(str, pane.values))
        for pane in panes
    ] == expected


@pytest.mark.parametrize("combiner", TimestampCombiner)
@pytest.mark.parametrize("output_watermark", [2, 5, 9, 12])
def test_late_element_timing_ignores_the_output_watermark(
    combiner: TimestampCombiner, output_watermark: int
) -> None:
    """Uses an output watermark that another key holds before the end of the window."""
    run = OurRun(attrs.evolve(FIXED, timestamp_combiner=combiner))
    run.now = CurrentTimes(12, 0, output_watermark)
    (group,) = run.element(1, 5)
    assert (group.pane.timing.name, group.timestamp) == ("LATE", 9)


def test_pending_on_time_pane_holds_the_watermark_at_the_window_end() -> None:
    """Uses an element whose timestamp is after its window. The next step must still get an on-time
    pane.
    """
    combiner = TimestampCombiner.EARLIEST
    run = OurRun(attrs.evolve(FIXED, trigger=TWO, timestamp_combiner=combiner))
    run.element(1, 15, [IntervalWindow(0, 10)])
    run.time(watermark=12)
    run.element(2, 15, [IntervalWindow(10, 20)])
    assert run.summary.holds == ((9, 1), (15, 1))
    run.now = CurrentTimes(12, 0, output_watermark=9)
    (group,) = run.element(3, 1)
    assert group.pane.timing is PaneTiming.ON_TIME
    assert run.summary.holds == ((15, 1),)
