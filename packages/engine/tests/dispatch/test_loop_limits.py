"""Tests of the limits of the scheduler loop, which runs a small job in one worker process."""

from __future__ import annotations

import attrs
import pytest
from beam_runner_model.facts import DataStatistics
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.loop_limits import LoopLimits, are_all_bundles_small
from beam_runner_engine.scheduler.commands import Bundle, Input, SectionStageInput
from beam_runner_engine.scheduler.data import Data

from .bundles import bundle

LIMITS = LoopLimits(
    bundle_ms=200,
    source_ms=50,
    parallel_ms=15,
    usual_weight=0.2,
    waiting_bytes=100,
    report_ms=300,
    report_entries=5,
    nap_ms=20,
)


def reading(*sizes: int) -> Bundle:
    inputs = tuple(Input(Data(size, DataStatistics(1, size, 0))) for size in sizes)
    return attrs.evolve(bundle(1), inputs=inputs)


def section() -> Bundle:
    return attrs.evolve(bundle(2), parts=(SectionStageInput("stage", (), (), 0),))


@pytest.mark.parametrize(
    ("bundles", "small"),
    [
        ([], True),
        ([reading(60, 40)], True),
        ([reading(60), reading(41)], False),
        ([section()], False),
    ],
)
def test_bundles_with_little_input_count_as_small_unless_one_is_a_section(
    bundles: list[Bundle], small: bool
) -> None:
    assert are_all_bundles_small(bundles, 100) == small
    assert LIMITS.needs_several_slots(bundles, usual=0.0) != small


def test_scheduler_loop_with_several_slow_bundles_needs_several_slots() -> None:
    assert LIMITS.needs_several_slots([reading(1), reading(1)], usual=15.1)
    assert not LIMITS.needs_several_slots([reading(1), reading(1)], usual=15.0)
    assert not LIMITS.needs_several_slots([reading(1)], usual=1000.0)


def test_average_bundle_duration_after_one_slow_bundle_stays_low() -> None:
    usual = LIMITS.update_average_duration(0.0, 70.0)
    assert usual == pytest.approx(14.0)
    assert LIMITS.update_average_duration(usual, 70.0) > 15.0


def test_bundle_that_others_wait_for_has_a_shorter_duration_limit() -> None:
    assert LIMITS.get_max_duration(awaited=True) < LIMITS.get_max_duration(awaited=False)


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 400)), max_size=40))
def test_scheduler_loop_reports_its_entries_in_time_and_sends_no_empty_report(
    rounds: list[tuple[int, float]],
) -> None:
    """Simulates rounds of a scheduler loop with a number of new journal entries and a duration
    (ms). The loop can report before each round.
    """
    entries, now, told, oldest = 0, 0.0, 0.0, 0.0
    for more, took in rounds:
        if LIMITS.is_report_due(entries, now - told):
            assert entries, "there is something to tell"
            entries, told = 0, now
        assert entries <= LIMITS.report_entries
        assert not entries or now - oldest <= LIMITS.report_ms
        now += took
        oldest = oldest if entries else now
        entries += more


def test_idle_scheduler_loop_waits_only_for_work_due_soon() -> None:
    assert [due for due in (0, 20, 21) if LIMITS.should_wait_for_work(due)] == [0, 20]
