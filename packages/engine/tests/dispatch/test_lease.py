"""Tests of the lease on a job's scheduler: the times at which a new scheduler loop can start in a
worker process.
"""

from __future__ import annotations

from beam_runner_engine.dispatch.lease import SchedulerLease


def lent(now: float) -> SchedulerLease:
    lease = SchedulerLease(outgrown_pause=0.5, broken_pause=30.0)
    assert lease.can_start_loop(now)
    lease.begin_lease(now)
    return lease


def test_scheduler_loop_restarts_after_a_short_run_only_after_a_pause() -> None:
    lease = lent(100.0)
    lease.end_lease_for_more_slots(100.25)
    assert not lease.is_out
    assert not lease.can_start_loop(100.7)
    assert lease.can_start_loop(100.75)


def test_scheduler_loop_restarts_after_a_long_run_immediately() -> None:
    """Checks that a loop that lasted long enough causes no pause: one slow bundle says nothing
    about later bundles.
    """
    lease = lent(100.0)
    lease.end_lease_for_more_slots(100.5)
    assert lease.can_start_loop(100.5)


def test_scheduler_loop_restarts_after_a_lost_process_only_after_a_pause() -> None:
    lease = lent(100.0)
    lease.end_lease_of_lost_loop(101.0)
    assert not lease.can_start_loop(130.9)
    assert lease.can_start_loop(131.0)


def test_scheduler_lease_is_held_only_by_the_latest_loop() -> None:
    lease = lent(100.0)
    assert lease.is_held_by(1)
    lease.end_lease()
    assert not lease.is_held_by(1)
    lease.begin_lease(101.0)
    assert not lease.is_held_by(1)
    assert lease.is_held_by(2)
