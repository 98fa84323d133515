from __future__ import annotations

from beam_runner_runtime.bundles.activity import Activity
from beam_runner_runtime.channel.messages import Doing


def test_activity_with_highest_priority_is_reported() -> None:
    activity = Activity()
    assert activity.now() is Doing.IDLE
    with activity.of(Doing.ORDER):
        assert activity.now() is Doing.ORDER
        with activity.of(Doing.LOOP):
            assert activity.now() is Doing.LOOP
            with activity.of(Doing.NEIGHBOUR), activity.of(Doing.NEIGHBOUR):
                assert activity.now() is Doing.NEIGHBOUR
                with activity.of(Doing.BUNDLE):
                    assert activity.now() is Doing.BUNDLE
                assert activity.now() is Doing.NEIGHBOUR
            assert activity.now() is Doing.LOOP
    assert activity.now() is Doing.IDLE


def test_activity_that_ends_by_error_is_over() -> None:
    activity = Activity()
    try:
        with activity.of(Doing.BUNDLE):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert activity.now() is Doing.IDLE
