"""Sessions in triggered grouping: which windows an element meets, and what merging loses."""

from __future__ import annotations

from itertools import accumulate

import attrs
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import Group
from beam_runner_engine.keyed.now import Now
from beam_runner_engine.testing import MemoryStore
from beam_runner_engine.values import triggers as t
from beam_runner_engine.values.strategy import MergeStatus, WindowingStrategy
from beam_runner_engine.values.summary import ShardSummary
from beam_runner_engine.values.times import MAX_TIMESTAMP
from beam_runner_engine.values.timestamp_combiners import TimestampCombiner
from beam_runner_engine.values.triggers import Trigger
from beam_runner_engine.values.window_coders import encode_window
from beam_runner_engine.values.window_fns import Sessions
from beam_runner_engine.values.windows import IntervalWindow

from .test_oracle import STRATEGIES
from .triggering import KEY, OurRun

GAP = 7
GROWING = st.lists(
    st.integers(-4, 5) | st.sampled_from([1, 1, 1, 30, -30]), min_size=5, max_size=60
)
"""How far each element is from the one before: most come to the session of that one."""


def sessions(
    trigger: Trigger, combiner: TimestampCombiner = TimestampCombiner.END_OF_WINDOW
) -> WindowingStrategy:
    return WindowingStrategy(
        Sessions(GAP),
        merge_status=MergeStatus.NEEDS_MERGE,
        trigger=trigger,
        allowed_lateness=9,
        timestamp_combiner=combiner,
    )


FAR = [99, 1, 1, 1, 1]
EACH = t.Repeatedly(t.AfterEach((t.AfterCount(2), t.AfterCount(3))))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STRATEGIES, GROWING, st.integers(-60, 60), st.integers(0, 40), st.integers(1, 9))
@example(sessions(EACH), [1, 0, 1] * 12, -1, 0, 4)
@example(sessions(EACH, TimestampCombiner.LATEST), [1, -1, 1, 1] * 9, -30, 0, 36)
@example(sessions(EACH, TimestampCombiner.EARLIEST), [1, -1, 1, 1] * 9, 9, 0, 36)
@example(sessions(t.Always(), TimestampCombiner.LATEST), [1, -1, 1, 1] * 9, -30, 0, 36)
@example(sessions(t.Always(), TimestampCombiner.LATEST), [1, -1, 1, 1] * 9, 9, 0, 36)
@example(sessions(t.Always()), [9, 1, 1, -6, -5, *FAR], 17, 0, 5).via("the last is late")
@example(sessions(t.Always()), [20, -20, 6, 6, 6, *FAR], 0, 0, 5).via("meets the next session")
@example(sessions(t.Always()), [0, 20, -6, -6, -6, *FAR], 0, 0, 5).via("meets the one before")
def test_elements_that_come_to_a_session_together_fire_what_they_fire_one_by_one(
    strategy: WindowingStrategy, steps: list[int], watermark: int, behind: int, size: int
) -> None:
    """Sessions grow, meet, and are late; panes, drops, holds and timers don't tell who came with whom."""
    strategy = attrs.evolve(strategy, window_fn=Sessions(GAP), merge_status=MergeStatus.NEEDS_MERGE)
    times = list(accumulate(steps))
    windows = [encode_window(IntervalWindow(time, time + GAP)) for time in times]
    values = list(range(len(times)))

    half = len(times) // 2

    def run(size: int) -> tuple[list[Group], ShardSummary, int]:
        grouper = TriggeredGrouper(strategy, MemoryStore())
        out: list[Group] = []
        for begin, end, later in ((0, half, 0), (half, len(times), 20)):
            now = Now(watermark + later, later, watermark + later - behind)
            for start in range(begin, end, size):
                some = slice(start, min(start + size, end))
                keys = [KEY] * len(times[some])
                out += grouper.process(keys, windows[some], times[some], values[some], now)
        commit = grouper.commit()
        panes = [group._replace(values=sorted(group.values)) for group in out]
        return panes, commit.summary, commit.dropped

    assert run(size) == run(1)
    assert run(len(times)) == run(1)


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
