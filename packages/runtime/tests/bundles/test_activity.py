from __future__ import annotations

from beam_runner_runtime.bundles.activity import ActivityCounter
from beam_runner_runtime.channel.messages import WorkerActivity


def test_worker_activity_with_highest_priority_is_reported() -> None:
    activity = ActivityCounter()
    assert activity.get_current_activity() is WorkerActivity.IDLE
    with activity.track_activity(WorkerActivity.ORDER):
        assert activity.get_current_activity() is WorkerActivity.ORDER
        with activity.track_activity(WorkerActivity.LOOP):
            assert activity.get_current_activity() is WorkerActivity.LOOP
            with (
                activity.track_activity(WorkerActivity.NEIGHBOUR),
                activity.track_activity(WorkerActivity.NEIGHBOUR),
            ):
                assert activity.get_current_activity() is WorkerActivity.NEIGHBOUR
                with activity.track_activity(WorkerActivity.BUNDLE):
                    assert activity.get_current_activity() is WorkerActivity.BUNDLE
                assert activity.get_current_activity() is WorkerActivity.NEIGHBOUR
            assert activity.get_current_activity() is WorkerActivity.LOOP
    assert activity.get_current_activity() is WorkerActivity.IDLE


def test_worker_activity_ends_if_its_code_raises_error() -> None:
    activity = ActivityCounter()
    try:
        with activity.track_activity(WorkerActivity.BUNDLE):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert activity.get_current_activity() is WorkerActivity.IDLE
