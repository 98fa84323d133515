"""Tests of the comparison of two programs in a shadow run."""

from __future__ import annotations

import pytest

from beam_runner_model.shadow_rendering import render_shadow_report
from beam_runner_model.shadows import (
    ShadowReport,
    StepComparison,
    StepOutcome,
    StepTotals,
    TimeSlot,
    TimeSlotTotal,
    compare_totals,
    find_time_slot,
)
from beam_runner_model.successions import Succession
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP

START = 1_700_000_000_123
DAY = 86_400_000


@pytest.mark.parametrize(
    "time",
    [
        MIN_TIMESTAMP,
        MAX_TIMESTAMP,
        0,
        -1,
        START,
        START - 3_600_000,
        START + 3_600_001,
        START + 40 * DAY,
    ],
)
def test_time_slot_contains_its_time(time: int) -> None:
    slot = find_time_slot(time, START)
    assert slot.start <= time < slot.end


def test_time_slots_of_a_long_backlog_are_few() -> None:
    year = 365 * DAY
    times = range(START - 10 * year, START, 3_000_000)
    assert len({find_time_slot(time, START) for time in times}) < 2000


def test_time_slots_of_a_day_are_few() -> None:
    times = range(START, START + DAY, 500)
    assert len({find_time_slot(time, START) for time in times}) < 300


def totals(watermark: int, **slots: tuple[int, int]) -> StepTotals:
    """Returns totals whose slots have the names `s` and the start in seconds."""
    named = {int(name[1:]) * 1000: TimeSlotTotal(*total) for name, total in slots.items()}
    return StepTotals(
        watermark, {TimeSlot(start, start + 1000): one for start, one in named.items()}
    )


def test_elements_behind_both_watermarks_are_compared() -> None:
    old = totals(2000, s0=(2, 7), s1=(1, 5), s2=(9, 9))
    new = totals(9000, s0=(2, 7), s1=(1, 5), s3=(1, 1))
    found = compare_totals("Write", "Write", old, new)
    assert found == StepComparison(StepOutcome.EQUAL, "Write", "", 3, 3, 2000)


@pytest.mark.parametrize("changed", [{"s1": (1, 6)}, {"s1": (2, 5)}, {}])
def test_first_different_slot_is_reported(changed: dict[str, tuple[int, int]]) -> None:
    old = totals(5000, s0=(2, 7), s1=(1, 5), s2=(1, 1))
    new = totals(5000, s0=(2, 7), s2=(1, 1), **changed)
    found = compare_totals("Write", "Store", old, new)
    assert (found.outcome, found.before) == (StepOutcome.DIFFERENT, "Store")
    assert found.first_difference == 1000


def test_slot_at_the_end_of_time_is_compared_after_the_end() -> None:
    slot = find_time_slot(MAX_TIMESTAMP - 1, START)
    old, new = (StepTotals(MAX_TIMESTAMP, {slot: TimeSlotTotal(1, one)}) for one in (3, 4))
    assert compare_totals("A", "A", old, new).outcome is StepOutcome.DIFFERENT


@pytest.mark.parametrize(
    ("outcomes", "failure", "is_equal"),
    [
        ((StepOutcome.EQUAL, StepOutcome.EMPTY, StepOutcome.ADDED), "", True),
        ((StepOutcome.EMPTY,), "", False),
        ((), "", False),
        ((StepOutcome.EQUAL, StepOutcome.DIFFERENT), "", False),
        ((StepOutcome.EQUAL,), "ValueError", False),
    ],
)
def test_report_is_equal_if_something_was_compared_without_a_difference(
    outcomes: tuple[StepOutcome, ...], failure: str, is_equal: bool
) -> None:
    steps = tuple(StepComparison(one, "A") for one in outcomes)
    assert ShadowReport(1.0, steps, new_failure=failure).is_equal is is_equal


@pytest.mark.parametrize("outcome", StepOutcome)
def test_text_of_every_shadow_run_outcome_names_the_step(outcome: StepOutcome) -> None:
    step = StepComparison(outcome, "Write", "Store", 1, 2, MAX_TIMESTAMP, MAX_TIMESTAMP)
    (line,) = render_shadow_report(ShadowReport(1.0, (step,)))
    assert line.startswith(outcome.value)
    assert "'Write'" in line
    assert "'Store'" in line


def test_succession_keeps_the_shadow_run_until_another_comparison() -> None:
    shadow = ShadowReport(1.0, (StepComparison(StepOutcome.EQUAL, "A"),))
    first = Succession(compared="b").merge(Succession(shadow=shadow))
    assert first.shadow == shadow
    assert first.merge(Succession(successor="c")).shadow == shadow
    assert first.merge(Succession(compared="b")).shadow == shadow
    assert not first.merge(Succession(compared="d")).shadow.exists
