"""When the scheduler may be lent to a loop again."""

from __future__ import annotations

import pytest
from clocks import Clock, clock_of

from beam_spark_executor.driver import loop_lease
from beam_spark_executor.driver.loop_lease import LoopLease
from beam_spark_executor.tuning import TUNING

BROKEN_PAUSE_SECONDS = TUNING.loop_broken_pause_seconds
OUTGROWN_PAUSE_SECONDS = TUNING.loop_outgrown_pause_seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return clock_of(loop_lease, monkeypatch)


def test_after_a_loop_that_was_soon_outgrown_lanes_have_a_while(clock: Clock) -> None:
    lease = LoopLease()
    lease.begin()
    clock.now += OUTGROWN_PAUSE_SECONDS / 2
    lease.outgrown()
    assert not lease.is_out
    assert not lease.may_begin
    clock.now += OUTGROWN_PAUSE_SECONDS
    assert lease.may_begin


def test_a_loop_that_did_well_for_a_while_may_be_followed_at_once(clock: Clock) -> None:
    """One bundle that takes long, be it for a pause of its SDK, says nothing of those after it."""
    lease = LoopLease()
    lease.begin()
    clock.now += OUTGROWN_PAUSE_SECONDS
    lease.outgrown()
    assert lease.may_begin


def test_after_a_loop_that_was_lost_bundles_run_one_by_one(clock: Clock) -> None:
    lease = LoopLease()
    lease.begin()
    clock.now += OUTGROWN_PAUSE_SECONDS
    lease.broke()
    clock.now += BROKEN_PAUSE_SECONDS / 2
    assert not lease.may_begin
    clock.now += BROKEN_PAUSE_SECONDS
    assert lease.may_begin
