"""Tests of the defects that the watchdog detects, as a table."""

from __future__ import annotations

import pytest
from beam_runner_runtime.channel.messages import WorkerActivity
from beam_runner_runtime.shutdown.limits import LIMITS

from beam_runner_driver.lanes.watchdog import (
    AssignedWork,
    ConditionTimer,
    find_abandoned_work,
    is_abandoned,
)

NOW = 10_000.0
LONG, SHORT = LIMITS.watchdog_seconds + 1, LIMITS.watchdog_seconds - 1
EVER = 9_000.0


@pytest.mark.parametrize(
    ("doing", "given", "said", "moved", "heard", "defect"),
    [
        # The process waits for an order, although it received an order long ago.
        (WorkerActivity.IDLE, LONG, LONG, LONG, 1, True),
        (WorkerActivity.IDLE, LONG, LONG, 0, 1, True),
        (WorkerActivity.IDLE, SHORT, LONG, LONG, 1, False),
        (WorkerActivity.IDLE, LONG, SHORT, LONG, 1, False),
        # User code can take any amount of time.
        (WorkerActivity.BUNDLE, EVER, EVER, EVER, 1, False),
        # A store or a disk is unavailable.
        (WorkerActivity.NEIGHBOUR, EVER, EVER, EVER, 1, False),
        # The process is between bundles: a defect only if no bundle is committed either.
        (WorkerActivity.LOOP, LONG, LONG, LONG, 1, True),
        (WorkerActivity.LOOP, LONG, LONG, SHORT, 1, False),
        (WorkerActivity.LOOP, LONG, SHORT, LONG, 1, False),
        (WorkerActivity.ORDER, LONG, LONG, LONG, 1, True),
        (WorkerActivity.ORDER, LONG, LONG, SHORT, 1, False),
        # A silent process may be stopped, or in C code that holds Python's lock.
        (WorkerActivity.IDLE, LONG, LONG, LONG, 11, False),
        (WorkerActivity.LOOP, LONG, LONG, LONG, 11, False),
    ],
)
def test_bundle_assigned_to_idle_process_counts_as_abandoned(
    doing: WorkerActivity, given: float, said: float, moved: float, heard: float, defect: bool
) -> None:
    claim = AssignedWork(NOW - given, doing, NOW - said, NOW - heard)
    assert is_abandoned(claim, NOW - moved, NOW) is defect
    found = find_abandoned_work([("a", claim)], NOW - moved, NOW)
    assert found == (["a"] if defect else [])


@pytest.mark.parametrize("doing", list(WorkerActivity))
def test_newly_assigned_bundle_does_not_count_as_abandoned(doing: WorkerActivity) -> None:
    assert not is_abandoned(AssignedWork(NOW, doing, 0.0, NOW), 0.0, NOW)


def test_condition_timer_counts_from_first_true_observation() -> None:
    since = ConditionTimer()
    assert since.measure_seconds(is_so=False, now=1.0) == 0.0
    assert since.measure_seconds(is_so=True, now=2.0) == 0.0
    assert since.measure_seconds(is_so=True, now=5.0) == 3.0
    assert since.measure_seconds(is_so=False, now=6.0) == 0.0
    assert since.measure_seconds(is_so=True, now=7.0) == 0.0
