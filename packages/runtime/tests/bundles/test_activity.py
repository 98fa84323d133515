from __future__ import annotations

from beam_runner_runtime.bundles.activity import ActivityCounter
from beam_runner_runtime.channel.messages import WorkerActivity


def test_activity_with_highest_priority_is_reported() -> None:
    activity = ActivityCounter()
    assert activity.current_activity() is WorkerActivity.IDLE
    with activity.track_activity(WorkerActivity.ORDER):
        assert activity.current_activity() is WorkerActivity.ORDER
        with activity.track_activity(WorkerActivity.LOOP):
            assert activity.current_activity() is WorkerActivity.LOOP
            with (
                activity.track_activity(WorkerActivity.NEIGHBOUR),
                activity.track_activity(WorkerActivity.NEIGHBOUR),
            ):
                assert activity.current_activity() is WorkerActivity.NEIGHBOUR
                with activity.track_activity(WorkerActivity.BUNDLE):
                    assert activity.current_activity() is WorkerActivity.BUNDLE
                assert activity.current_activity() is WorkerActivity.NEIGHBOUR
            assert activity.current_activity() is WorkerActivity.LOOP
    assert activity.current_activity() is WorkerActivity.IDLE


def test_activity_that_ends_by_error_is_over() -> None:
    activity = ActivityCounter()
    try:
        with activity.track_activity(WorkerActivity.BUNDLE):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert activity.current_activity() is WorkerActivity.IDLE
