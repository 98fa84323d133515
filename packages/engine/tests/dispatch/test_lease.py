"""Tests of the lease: the times at which a new loop can start."""

from __future__ import annotations

from beam_runner_engine.dispatch.lease import LoopLease


def lent(now: float) -> LoopLease:
    lease = LoopLease(outgrown_pause=0.5, broken_pause=30.0)
    assert lease.may_begin(now)
    lease.begin(now)
    return lease


def test_after_a_loop_that_was_soon_outgrown_places_have_a_while() -> None:
    lease = lent(100.0)
    lease.outgrown(100.25)
    assert not lease.is_out
    assert not lease.may_begin(100.7)
    assert lease.may_begin(100.75)


def test_a_loop_that_did_well_for_a_while_may_be_followed_at_once() -> None:
    """Checks that a loop that lasted long enough causes no pause: one slow bundle says nothing
    about later bundles.
    """
    lease = lent(100.0)
    lease.outgrown(100.5)
    assert lease.may_begin(100.5)


def test_after_a_loop_that_was_lost_bundles_run_one_by_one() -> None:
    lease = lent(100.0)
    lease.broke(101.0)
    assert not lease.may_begin(130.9)
    assert lease.may_begin(131.0)


def test_only_the_last_loop_is_awaited_while_it_is_out() -> None:
    lease = lent(100.0)
    assert lease.covers(1)
    lease.end()
    assert not lease.covers(1)
    lease.begin(101.0)
    assert not lease.covers(1)
    assert lease.covers(2)
