"""Grouping with triggers: bundles don't matter, nothing leaks, holds keep, closing and dropping."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import Group
from beam_runner_engine.keyed.now import Now
from beam_runner_engine.testing.stores import MemoryStore
from beam_runner_engine.values import triggers as t
from beam_runner_engine.values.panes import PaneInfo, PaneTiming
from beam_runner_engine.values.strategy import (
    AccumulationMode,
    ClosingBehavior,
    MergeStatus,
    OnTimeBehavior,
    WindowingStrategy,
)
from beam_runner_engine.values.times import MAX_TIMESTAMP
from beam_runner_engine.values.timestamp_combiners import TimestampCombiner
from beam_runner_engine.values.triggers import Trigger
from beam_runner_engine.values.window_coders import encode_window
from beam_runner_engine.values.window_fns import (
    FixedWindows,
    Sessions,
    assign_windows,
)
from beam_runner_engine.values.windows import IntervalWindow

from .test_oracle import STRATEGIES, schedules
from .triggering import KEY, Element, OurRun, ProcessingTime, Step, Watermark, run_ours

SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
FIXED = WindowingStrategy(FixedWindows(10))
WINDOW = IntervalWindow(0, 10)


def _pane(first: bool, last: bool, timing: PaneTiming, index: int, late_index: int) -> PaneInfo:
    return PaneInfo(first, last, timing, index, late_index)


@SLOW
@given(STRATEGIES, schedules())
def test_where_bundles_end_does_not_matter(
    strategy: WindowingStrategy, schedule: list[Step]
) -> None:
    one_by_one, run = run_ours(strategy, schedule)
    at_once, other = run_ours(strategy, schedule, one_bundle=True)
    other.commit()
    assert at_once == one_by_one
    if not strategy.merges:  # merged windows keep their values in bags that bundles number
        assert other.store.cells() == run.store.cells()
    assert (other.dropped, other.summary) == (run.dropped, run.summary)


@SLOW
@given(STRATEGIES, schedules())
def test_elements_that_come_together_fire_what_they_fire_one_by_one(
    strategy: WindowingStrategy, schedule: list[Step]
) -> None:
    def panes(together: bool) -> dict[bytes, list[Group]]:
        run = OurRun(strategy)
        out: list[Group] = []
        numbered = list(enumerate(schedule))
        for is_element, steps in groupby(numbered, key=lambda step: isinstance(step[1], Element)):
            if is_element:
                rows = [
                    (encode_window(window), step.timestamp, number)
                    for number, step in steps
                    if isinstance(step, Element)
                    for window in assign_windows(strategy.window_fn, step.timestamp)
                ]
                for batch in [rows] if together else [[row] for row in rows]:
                    windows, times, values = zip(*batch, strict=True)
                    out += run.grouper.process([KEY] * len(batch), windows, times, values, run.now)
                    run.commit()
            else:
                for _, step in steps:
                    if isinstance(step, Watermark):
                        out += run.time(watermark=step.time)
                    elif isinstance(step, ProcessingTime):
                        out += run.time(processing_time=step.time)
        by_window: dict[bytes, list[Group]] = {}
        for group in out:
            if strategy.merges:  # values of merged windows come window by window
                group = group._replace(values=sorted(group.values))
            by_window.setdefault(group.window, []).append(group)
        return by_window

    assert panes(together=True) == panes(together=False)


@SLOW
@given(STRATEGIES, st.lists(st.integers(0, 19), min_size=20, max_size=60), st.booleans())
@example(
    attrs.evolve(FIXED, trigger=t.Repeatedly(t.AfterEach((t.AfterCount(2), t.AfterCount(3))))),
    list(range(20)),
    False,
)
@example(
    attrs.evolve(FIXED, trigger=t.Always(), timestamp_combiner=TimestampCombiner.LATEST),
    [7, 6, 5, 9] * 5,
    False,
)
@example(
    attrs.evolve(
        FIXED,
        trigger=t.Repeatedly(t.AfterCount(2)),
        timestamp_combiner=TimestampCombiner.LATEST,
    ),
    [7, 6, 5, 9] * 5,
    False,
)
def test_many_elements_of_a_window_fire_what_they_fire_one_by_one(
    strategy: WindowingStrategy, times: list[int], late: bool
) -> None:
    strategy = attrs.evolve(
        strategy,
        window_fn=FixedWindows(20),
        merge_status=MergeStatus.NON_MERGING,
        allowed_lateness=100,
    )
    now = Now(watermark=30 if late else 10, processing_time=0, output_watermark=5)
    data = encode_window(IntervalWindow(0, 20))
    values = list(range(len(times)))

    def panes(size: int) -> tuple[list[Group], Any]:
        grouper = TriggeredGrouper(strategy, MemoryStore())
        out: list[Group] = []
        for start in range(0, len(times), size):
            some = slice(start, start + size)
            many = len(times[some])
            out += grouper.process([KEY] * many, [data] * many, times[some], values[some], now)
        out += grouper.advance(Now(MAX_TIMESTAMP, 0))
        commit = grouper.commit()
        return [group._replace(values=list(group.values)) for group in out], commit

    one_by_one = panes(1)
    assert panes(len(times)) == one_by_one
    assert panes(7) == one_by_one


@SLOW
@given(STRATEGIES, schedules())
def test_nothing_is_left_at_the_end_of_time(
    strategy: WindowingStrategy, schedule: list[Step]
) -> None:
    _, run = run_ours(strategy, schedule)
    run.time(watermark=MAX_TIMESTAMP)
    assert run.store.cells() == {}
    assert run.summary.holds == ()
    assert run.summary.next_event_timer is None
    assert run.summary.next_processing_timer is None


@SLOW
@given(STRATEGIES, schedules())
def test_every_element_comes_out_or_is_dropped(
    strategy: WindowingStrategy, schedule: list[Step]
) -> None:
    strategy = attrs.evolve(strategy, accumulation_mode=AccumulationMode.DISCARDING)
    panes, run = run_ours(strategy, [*schedule, Watermark(MAX_TIMESTAMP)])
    came = sum(
        len(assign_windows(strategy.window_fn, step.timestamp))
        for step in schedule
        if isinstance(step, Element)
    )
    assert sum(len(pane.values) for pane in panes) + run.dropped == came


@SLOW
@given(STRATEGIES, schedules())
def test_what_fires_is_not_behind_the_output_watermark_unless_it_came_late(
    strategy: WindowingStrategy, schedule: list[Step]
) -> None:
    """The output watermark follows the input as far as holds let it."""
    run = OurRun(strategy)
    output_watermark = run.now.output_watermark
    late: set[int] = set()
    for number, step in enumerate(schedule):
        match step:
            case Element(timestamp):
                if timestamp < run.now.watermark:
                    late.add(number)
                groups: Sequence[Group] = run.element(number, timestamp)
            case Watermark(time):
                run.now = attrs.evolve(run.now, output_watermark=output_watermark)
                run.now = Now(time, run.now.processing_time, output_watermark)
                groups = run.grouper.advance(run.now)
                run.commit()
            case ProcessingTime(time):
                run.now = Now(run.now.watermark, time, output_watermark)
                groups = run.grouper.advance(run.now)
                run.commit()
        for group in groups:
            if not late.intersection(group.values):
                assert group.timestamp >= output_watermark
        held = run.summary.holds[0][0] if run.summary.holds else MAX_TIMESTAMP
        output_watermark = max(output_watermark, min(run.now.watermark, held))
        run.now = attrs.evolve(run.now, output_watermark=output_watermark)


def test_a_window_that_has_not_finished_fires_when_it_closes() -> None:
    strategy = attrs.evolve(FIXED, trigger=t.AfterCount(5), allowed_lateness=7)
    run = OurRun(strategy)
    run.element(1, 3)
    assert run.summary.next_event_timer == 17
    assert run.time(watermark=16) == []
    (group,) = run.time(watermark=17)
    assert group.pane == _pane(True, True, PaneTiming.ON_TIME, 0, 0)
    assert (group.timestamp, list(group.values)) == (9, [1])


def test_late_data_that_waits_is_held_until_the_window_closes_and_is_late() -> None:
    trigger = t.AfterEndOfWindow(late=t.AfterCount(3))
    run = OurRun(attrs.evolve(FIXED, trigger=trigger, allowed_lateness=7))
    run.time(watermark=12)
    (on_arrival,) = run.element(1, 3)
    assert on_arrival.pane == _pane(True, False, PaneTiming.LATE, 0, 0)
    assert run.element(2, 3) == []
    assert run.summary.holds == ((16, 1),)
    (group,) = run.time(watermark=17)
    assert group.pane == _pane(False, True, PaneTiming.LATE, 1, 1)


@pytest.mark.parametrize("trigger", [t.Always(), t.Repeatedly(t.AfterCount(1))])
def test_windows_with_nothing_new_close_in_silence(trigger: Trigger) -> None:
    run = OurRun(attrs.evolve(FIXED, trigger=trigger))
    assert len(run.element(1, 3)) == 1
    assert run.time(watermark=100) == []


def test_windows_with_nothing_new_fire_at_closing_if_they_always_must() -> None:
    strategy = attrs.evolve(FIXED, closing_behavior=ClosingBehavior.EMIT_ALWAYS, allowed_lateness=5)
    run = OurRun(strategy)
    run.element(1, 3)
    (on_time,) = run.time(watermark=10)
    assert on_time.pane == _pane(True, False, PaneTiming.ON_TIME, 0, 0)
    (closing,) = run.time(watermark=15)
    assert (closing.pane, list(closing.values)) == (_pane(False, True, PaneTiming.LATE, 1, 1), [])


@pytest.mark.parametrize(
    ("behavior", "fires"), [(OnTimeBehavior.FIRE_ALWAYS, 1), (OnTimeBehavior.FIRE_IF_NONEMPTY, 0)]
)
@pytest.mark.parametrize("lateness", [0, 5])
def test_on_time_panes_without_news(behavior: OnTimeBehavior, fires: int, lateness: int) -> None:
    trigger = t.AfterEndOfWindow(early=t.AfterCount(1), late=t.AfterCount(1))
    strategy = attrs.evolve(
        FIXED, trigger=trigger, on_time_behavior=behavior, allowed_lateness=lateness
    )
    run = OurRun(strategy)
    run.element(1, 3)
    assert bool(run.summary.holds) == bool(fires)
    groups = run.time(watermark=10)
    assert [group.pane for group in groups] == [
        _pane(False, lateness == 0, PaneTiming.ON_TIME, 1, 0)
    ] * fires


def test_a_finished_trigger_drops_what_follows_until_the_window_closes() -> None:
    run = OurRun(attrs.evolve(FIXED, trigger=t.AfterCount(2)))
    groups = run.element(1, 3) + run.element(2, 4) + run.element(3, 5)
    assert [group.pane.is_last for group in groups] == [True]
    assert run.dropped == 1
    assert run.summary.holds == ()
    assert run.time(watermark=10) == []
    assert run.store.cells() == {}


def test_elements_that_follow_in_the_same_call_are_dropped_too() -> None:
    grouper = TriggeredGrouper(attrs.evolve(FIXED, trigger=t.AfterCount(2)), MemoryStore())
    data = encode_window(WINDOW)
    (group,) = grouper.process([KEY] * 5, [data] * 5, [0] * 5, [1, 2, 3, 4, 5], Now())
    assert list(group.values) == [1, 2]
    assert grouper.commit().dropped == 3


def test_elements_of_closed_windows_are_dropped() -> None:
    run = OurRun(attrs.evolve(FIXED, allowed_lateness=5))
    run.time(watermark=14)
    assert len(run.element(1, 3)) == 1
    run.time(watermark=15)
    assert run.element(2, 3) == []
    assert run.dropped == 1


def test_sessions_whose_trigger_finished_drop_what_joins_them() -> None:
    strategy = WindowingStrategy(
        Sessions(10), merge_status=MergeStatus.NEEDS_MERGE, trigger=t.AfterCount(1)
    )
    run = OurRun(strategy)
    assert len(run.element(1, 3)) == 1
    assert run.element(2, 5) == []
    assert run.dropped == 1


def test_a_bundle_reads_and_writes_the_keys_it_touches() -> None:
    strategy = attrs.evolve(FIXED, trigger=t.Repeatedly(t.AfterCount(100)))
    store = MemoryStore()
    many = 5_000
    keys = [b"%d" % number for number in range(many)]
    data = encode_window(WINDOW)
    grouper = TriggeredGrouper(strategy, store)
    grouper.process(keys, [data] * many, [1] * many, [b"v"] * many, Now())
    store.commit(grouper.commit().deltas)
    store.reads = 0
    grouper = TriggeredGrouper(strategy, store)
    grouper.process(keys[:100], [data] * 100, [1] * 100, [b"w"] * 100, Now(1))
    deltas = grouper.commit().deltas
    assert store.reads <= 120
    assert len(deltas) <= 220


def test_a_store_that_lost_a_window_is_told() -> None:
    run = OurRun(FIXED)
    run.element(1, 3)
    for cell in [cell for cell in run.store.cells() if cell.name == "~window"]:
        del run.store._cells[cell]
    with pytest.raises(ValueError, match="the store has lost it"):
        run.time(watermark=10)


@SLOW
@given(STRATEGIES, schedules(), st.integers(0, 10), st.integers(0, 10))
def test_a_grouper_can_be_pickled_in_the_middle_of_a_bundle(
    strategy: WindowingStrategy, schedule: list[Step], bundles: int, more: int
) -> None:
    run, steps = OurRun(strategy), list(enumerate(schedule))
    for number, step in steps[:bundles]:
        run.step(number, step)
    run.one_bundle = True
    for number, step in steps[bundles : bundles + more]:
        run.step(number, step)
    twin = copy.copy(run)
    twin.grouper = pickle.loads(pickle.dumps(run.grouper))
    for number, step in steps[bundles + more :]:
        assert twin.step(number, step) == run.step(number, step)
    assert twin.grouper.commit() == run.grouper.commit()
