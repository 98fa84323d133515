from __future__ import annotations

from beam_runner_runtime.bundles.activity import ActivityCounter
from beam_runner_runtime.channel.messages import WorkerActivity


def test_activity_with_highest_priority_is_reported() -> None:
    activity = ActivityCounter()
    assert activity.now() is WorkerActivity.IDLE
    with activity.of(WorkerActivity.ORDER):
        assert activity.now() is WorkerActivity.ORDER
        with activity.of(WorkerActivity.LOOP):
            assert activity.now() is WorkerActivity.LOOP
            with activity.of(WorkerActivity.NEIGHBOUR), activity.of(WorkerActivity.NEIGHBOUR):
                assert activity.now() is WorkerActivity.NEIGHBOUR
                with activity.of(WorkerActivity.BUNDLE):
                    assert activity.now() is WorkerActivity.BUNDLE
                assert activity.now() is WorkerActivity.NEIGHBOUR
            assert activity.now() is WorkerActivity.LOOP
    assert activity.now() is WorkerActivity.IDLE


def test_activity_that_ends_by_error_is_over() -> None:
    activity = ActivityCounter()
    try:
        with activity.of(WorkerActivity.BUNDLE):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert activity.now() is WorkerActivity.IDLE
