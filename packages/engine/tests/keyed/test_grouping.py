"""Tests of grouping with triggers: independence of bundle boundaries, state release, holds, closing
and dropping.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from itertools import pairwise

import attrs
import pytest
from beam_runner_model import triggers as t
from beam_runner_model.panes import PaneInfo, PaneTiming
from beam_runner_model.strategy import (
    AccumulationMode,
    ClosingBehavior,
    OnTimeBehavior,
    WindowingStrategy,
)
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.triggers import Trigger, may_fire_early
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import (
    FixedWindows,
    assign_windows,
)
from beam_runner_model.windows import IntervalWindow
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.groups import WindowPane
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.testing.stores import MemoryCellStore

from .test_oracle import STRATEGIES, schedules
from .triggering import KEY, Element, OurRun, ProcessingTime, Step, Watermark, run_ours

FIXED = WindowingStrategy(FixedWindows(10))
WINDOW = IntervalWindow(0, 10)


def _pane(first: bool, last: bool, timing: PaneTiming, index: int, late_index: int) -> PaneInfo:
    return PaneInfo(first, last, timing, index, late_index)


@given(STRATEGIES, schedules())
def test_panes_do_not_depend_on_bundle_boundaries(
    strategy: WindowingStrategy, schedule: list[Step]
) -> None:
    one_by_one, run = run_ours(strategy, schedule)
    at_once, other = run_ours(strategy, schedule, one_bundle=True)
    other.commit()
    assert at_once == one_by_one
    if (
        not strategy.needs_merge
    ):  # Merged windows keep their values in bags whose numbers depend on the bundles.
        assert other.store.copy_cells() == run.store.copy_cells()
    assert (other.dropped, other.summary) == (run.dropped, run.summary)


@given(
    STRATEGIES,
    st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 60)), min_size=1),
    st.integers(0, 60),
)
def test_panes_of_a_key_do_not_depend_on_other_keys(
    strategy: WindowingStrategy, elements: list[tuple[bytes, int]], watermark: int
) -> None:
    def panes(some: list[tuple[bytes, int]]) -> list[WindowPane]:
        grouper = TriggeredGrouper(strategy, MemoryCellStore())
        rows = [
            (key, encode_window(window), time)
            for key, time in some
            for window in assign_windows(strategy.window_fn, time)
        ]
        keys, windows, times = zip(*rows, strict=True)
        out: list[WindowPane] = []
        for now in (CurrentTimes(0), CurrentTimes(watermark)):
            out += grouper.process_elements(keys, windows, times, times, now)
        return [*out, *grouper.advance_time(CurrentTimes(MAX_TIMESTAMP, 100))]

    at_once = panes(elements)
    for key in {key for key, _ in elements}:
        alone = panes([element for element in elements if element[0] == key])
        of_key = [group for group in at_once if group.key == key]
        assert sorted(of_key, key=repr) == sorted(alone, key=repr)


@given(STRATEGIES.filter(lambda s: not may_fire_early(s.trigger)), schedules(), st.data())
def test_panes_at_the_window_end_do_not_depend_on_call_boundaries(
    strategy: WindowingStrategy, schedule: list[Step], data: st.DataObject
) -> None:
    times = [step.timestamp for step in schedule if isinstance(step, Element)]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(times)))))

    def panes(cuts: list[int]) -> tuple[list[WindowPane], int]:
        run = OurRun(strategy, one_bundle=True)
        out: list[WindowPane] = []
        for start, end in pairwise([0, *cuts, len(times)]):
            if start < end:
                out += run.elements((n, Element(times[n])) for n in range(start, end))
        out += run.time(watermark=MAX_TIMESTAMP)
        run.commit()
        return [group._replace(values=sorted(group.values)) for group in out], run.dropped

    assert panes(cuts) == panes(list(range(len(times))))


@given(STRATEGIES, schedules())
def test_state_store_is_empty_at_the_maximum_watermark(
    strategy: WindowingStrategy, schedule: list[Step]
) -> None:
    _, run = run_ours(strategy, schedule)
    run.time(watermark=MAX_TIMESTAMP)
    assert run.store.copy_cells() == {}
    assert run.summary.holds == ()
    assert run.summary.next_event_timer is None
    assert run.summary.next_processing_timer is None


@given(STRATEGIES, schedules())
def test_every_element_is_emitted_or_dropped(
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


@given(STRATEGIES, schedules())
def test_late_pane_contains_only_late_elements(
    strategy: WindowingStrategy, schedule: list[Step]
) -> None:
    strategy = attrs.evolve(strategy, accumulation_mode=AccumulationMode.DISCARDING)
    schedule = [*schedule, Watermark(MAX_TIMESTAMP)]
    on_time = set()
    watermark = MIN_TIMESTAMP
    for number, step in enumerate(schedule):
        if isinstance(step, Watermark):
            watermark = step.time
        elif isinstance(step, Element) and step.timestamp >= watermark:
            on_time.add(number)
    panes, _ = run_ours(strategy, schedule)
    for pane in panes:
        assert pane.timing != "LATE" or not on_time.intersection(pane.values)


@given(STRATEGIES, schedules())
def test_on_time_pane_is_not_behind_the_output_watermark(
    strategy: WindowingStrategy, schedule: list[Step]
) -> None:
    """Uses an output watermark that follows the input watermark as far as holds allow."""
    run = OurRun(strategy)
    output_watermark = run.now.output_watermark
    late: set[int] = set()
    for number, step in enumerate(schedule):
        match step:
            case Element(timestamp):
                if timestamp < run.now.watermark:
                    late.add(number)
                groups: Sequence[WindowPane] = run.element(number, timestamp)
            case Watermark(time):
                run.now = attrs.evolve(run.now, output_watermark=output_watermark)
                run.now = CurrentTimes(time, run.now.processing_time, output_watermark)
                groups = run.grouper.advance_time(run.now)
                run.commit()
            case ProcessingTime(time):
                run.now = CurrentTimes(run.now.watermark, time, output_watermark)
                groups = run.grouper.advance_time(run.now)
                run.commit()
        for group in groups:
            if not late.intersection(group.values):
                assert group.timestamp >= output_watermark
        held = run.summary.holds[0][0] if run.summary.holds else MAX_TIMESTAMP
        output_watermark = max(output_watermark, min(run.now.watermark, held))
        run.now = attrs.evolve(run.now, output_watermark=output_watermark)


def test_window_with_an_unfinished_trigger_fires_when_it_closes() -> None:
    strategy = attrs.evolve(FIXED, trigger=t.AfterCount(5), allowed_lateness=7)
    run = OurRun(strategy)
    run.element(1, 3)
    assert run.summary.next_event_timer == 17
    assert run.time(watermark=16) == []
    (group,) = run.time(watermark=17)
    assert group.pane == _pane(True, True, PaneTiming.ON_TIME, 0, 0)
    assert (group.timestamp, list(group.values)) == (9, [1])


def test_pending_late_data_holds_the_watermark_at_the_window_expiry() -> None:
    trigger = t.AfterEndOfWindow(late=t.AfterCount(3))
    run = OurRun(attrs.evolve(FIXED, trigger=trigger, allowed_lateness=7))
    run.time(watermark=12)
    (on_arrival,) = run.element(1, 3)
    assert on_arrival.pane == _pane(True, False, PaneTiming.LATE, 0, 0)
    assert run.element(2, 3) == []
    assert run.summary.holds == ((16, 1),)
    (group,) = run.time(watermark=17)
    assert group.pane == _pane(False, True, PaneTiming.LATE, 1, 1)


@pytest.mark.parametrize("combiner", TimestampCombiner)
def test_element_with_a_timestamp_after_its_window_holds_the_window_end(
    combiner: TimestampCombiner,
) -> None:
    run = OurRun(attrs.evolve(FIXED, timestamp_combiner=combiner))
    run.element(1, 30, [IntervalWindow(0, 10)])
    assert run.summary.holds == ((9, 1),)
    (group,) = run.time(watermark=10)
    assert list(group.values) == [1]


@pytest.mark.parametrize("trigger", [t.Always(), t.Repeatedly(t.AfterCount(1))])
def test_window_without_new_elements_closes_without_a_pane(trigger: Trigger) -> None:
    run = OurRun(attrs.evolve(FIXED, trigger=trigger))
    assert len(run.element(1, 3)) == 1
    assert run.time(watermark=100) == []


def test_window_with_emit_always_and_no_new_elements_fires_when_it_closes() -> None:
    strategy = attrs.evolve(FIXED, closing_behavior=ClosingBehavior.EMIT_ALWAYS, allowed_lateness=5)
    run = OurRun(strategy)
    run.element(1, 3)
    (on_time,) = run.time(watermark=10)
    assert on_time.pane == _pane(True, False, PaneTiming.ON_TIME, 0, 0)
    # A final pane after this time would be dropped downstream, where the window has closed.
    assert run.summary.min_hold == 14
    (closing,) = run.time(watermark=15)
    assert (closing.pane, list(closing.values)) == (_pane(False, True, PaneTiming.LATE, 1, 1), [])
    assert run.summary.holds == ()


@pytest.mark.parametrize(
    ("behavior", "fires"), [(OnTimeBehavior.FIRE_ALWAYS, 1), (OnTimeBehavior.FIRE_IF_NONEMPTY, 0)]
)
@pytest.mark.parametrize("lateness", [0, 5])
def test_on_time_pane_without_new_elements_fires_only_if_the_strategy_requests_it(
    behavior: OnTimeBehavior, fires: int, lateness: int
) -> None:
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


def test_window_with_a_finished_trigger_drops_elements() -> None:
    run = OurRun(attrs.evolve(FIXED, trigger=t.AfterCount(2)))
    groups = run.element(1, 3) + run.element(2, 4) + run.element(3, 5)
    assert [group.pane.is_last for group in groups] == [True]
    assert run.dropped == 1
    assert run.summary.holds == ()
    assert run.time(watermark=10) == []
    assert run.store.copy_cells() == {}


def test_elements_of_one_call_fire_together() -> None:
    grouper = TriggeredGrouper(attrs.evolve(FIXED, trigger=t.AfterCount(2)), MemoryCellStore())
    data = encode_window(WINDOW)
    (group,) = grouper.process_elements(
        [KEY] * 5, [data] * 5, [0] * 5, [1, 2, 3, 4, 5], CurrentTimes()
    )
    assert list(group.values) == [1, 2, 3, 4, 5]
    assert not grouper.process_elements([KEY] * 3, [data] * 3, [0] * 3, [6, 7, 8], CurrentTimes())
    assert grouper.finish_bundle().dropped == 3


def test_element_of_a_closed_window_is_dropped() -> None:
    run = OurRun(attrs.evolve(FIXED, allowed_lateness=5))
    run.time(watermark=14)
    assert len(run.element(1, 3)) == 1
    run.time(watermark=15)
    assert run.element(2, 3) == []
    assert run.dropped == 1


def test_grouping_bundle_reads_only_keys_with_elements() -> None:
    strategy = attrs.evolve(FIXED, trigger=t.Repeatedly(t.AfterCount(100)))
    store = MemoryCellStore()
    many = 5_000
    keys = [b"%d" % number for number in range(many)]
    data = encode_window(WINDOW)
    grouper = TriggeredGrouper(strategy, store)
    grouper.process_elements(keys, [data] * many, [1] * many, [b"v"] * many, CurrentTimes())
    store.commit_deltas(grouper.finish_bundle().deltas)
    store.reads = 0
    grouper = TriggeredGrouper(strategy, store)
    grouper.process_elements(keys[:100], [data] * 100, [1] * 100, [b"w"] * 100, CurrentTimes(1))
    deltas = grouper.finish_bundle().deltas
    assert store.reads <= 120
    assert len(deltas) <= 220


def test_missing_stored_window_raises_value_error() -> None:
    run = OurRun(FIXED)
    run.element(1, 3)
    for cell in [cell for cell in run.store.copy_cells() if cell.name == "~window"]:
        del run.store._cells[cell]
    with pytest.raises(ValueError, match="no record of it"):
        run.time(watermark=10)


@given(STRATEGIES, schedules(), st.integers(0, 10), st.integers(0, 10))
def test_grouper_unpickled_within_a_bundle_continues_the_bundle(
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
    assert twin.grouper.finish_bundle() == run.grouper.finish_bundle()
