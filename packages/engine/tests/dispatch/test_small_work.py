"""Tests of the limits of the scheduler loop."""

from __future__ import annotations

import attrs
import pytest
from beam_runner_model.facts import DataFacts
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.small_work import LoopLimits, is_small
from beam_runner_engine.scheduler.commands import Bundle, Input, SectionPart
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
    inputs = tuple(Input(Data(size, DataFacts(1, size, 0))) for size in sizes)
    return attrs.evolve(bundle(1), inputs=inputs)


def section() -> Bundle:
    return attrs.evolve(bundle(2), parts=(SectionPart("stage", (), (), 0),))


@pytest.mark.parametrize(
    ("bundles", "small"),
    [
        ([], True),
        ([reading(60, 40)], True),
        ([reading(60), reading(41)], False),
        ([section()], False),
    ],
)
def test_small_is_what_is_little_to_read_and_no_section(bundles: list[Bundle], small: bool) -> None:
    assert is_small(bundles, 100) == small
    assert LIMITS.is_outgrown(bundles, usual=0.0) != small


def test_slow_bundles_are_for_several_places_if_several_wait() -> None:
    assert LIMITS.is_outgrown([reading(1), reading(1)], usual=15.1)
    assert not LIMITS.is_outgrown([reading(1), reading(1)], usual=15.0)
    assert not LIMITS.is_outgrown([reading(1)], usual=1000.0)


def test_one_slow_bundle_is_not_usual() -> None:
    usual = LIMITS.usual(0.0, 70.0)
    assert usual == pytest.approx(14.0)
    assert LIMITS.usual(usual, 70.0) > 15.0


def test_a_source_has_less_time() -> None:
    assert LIMITS.longest(awaited=True) < LIMITS.longest(awaited=False)


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 400)), max_size=40))
def test_what_is_done_is_told_soon_and_nothing_is_told_in_vain(
    rounds: list[tuple[int, float]],
) -> None:
    """Simulates rounds of a loop with a number of new entries and a duration (ms). The loop can
    report before each round.
    """
    entries, now, told, oldest = 0, 0.0, 0.0, 0.0
    for more, took in rounds:
        if LIMITS.is_time_to_tell(entries, now - told):
            assert entries, "there is something to tell"
            entries, told = 0, now
        assert entries <= LIMITS.report_entries
        assert not entries or now - oldest <= LIMITS.report_ms
        now += took
        oldest = oldest if entries else now
        entries += more


def test_a_loop_without_work_waits_for_what_is_due_soon() -> None:
    assert [due for due in (0, 20, 21) if LIMITS.waits_for(due)] == [0, 20]
