"""Tests of the lease: the times at which a new loop can start."""

from __future__ import annotations

from beam_runner_engine.dispatch.lease import LoopLease


def lent(now: float) -> LoopLease:
    lease = LoopLease(outgrown_pause=0.5, broken_pause=30.0)
    assert lease.can_start(now)
    lease.begin(now)
    return lease


def test_lease_after_a_short_loop_pauses() -> None:
    lease = lent(100.0)
    lease.end_outgrown(100.25)
    assert not lease.is_out
    assert not lease.can_start(100.7)
    assert lease.can_start(100.75)


def test_lease_after_a_long_loop_has_no_pause() -> None:
    """Checks that a loop that lasted long enough causes no pause: one slow bundle says nothing
    about later bundles.
    """
    lease = lent(100.0)
    lease.end_outgrown(100.5)
    assert lease.can_start(100.5)


def test_lease_after_a_lost_loop_pauses() -> None:
    lease = lent(100.0)
    lease.end_broken(101.0)
    assert not lease.can_start(130.9)
    assert lease.can_start(131.0)


def test_lease_covers_only_the_latest_loop() -> None:
    lease = lent(100.0)
    assert lease.is_held_by(1)
    lease.end()
    assert not lease.is_held_by(1)
    lease.begin(101.0)
    assert not lease.is_held_by(1)
    assert lease.is_held_by(2)
