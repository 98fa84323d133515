"""Tests of the queue order: sources run after later bundles for a limited time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.bundle_queue import BundleQueue

from .bundles import bundle, is_source

STAND_BACK = 0.25


def order_of(waiting: BundleQueue) -> list[int]:
    return [waiting.take_next_bundle().number for _ in range(len(waiting))]


def test_source_bundle_lets_later_bundles_run_first_for_a_limited_time() -> None:
    waiting = BundleQueue(is_source, STAND_BACK)
    waiting.add_bundles([bundle(100), bundle(1)], 7.0)
    waiting.add_bundles([bundle(101), bundle(2)], 7.0 + STAND_BACK * 0.9)
    waiting.add_bundles([bundle(3)], 7.0 + STAND_BACK * 1.1)
    assert waiting.non_source_count == 3
    assert order_of(waiting) == [1, 2, 100, 3, 101]


def test_removed_bundle_is_no_longer_in_the_queue() -> None:
    waiting = BundleQueue(is_source, STAND_BACK)
    waiting.add_bundles((bundle(n) for n in range(6)), 0.0)
    waiting.remove_bundles([(2, 1), (3, 2)])
    assert waiting.non_source_count == 5
    assert order_of(waiting) == [0, 1, 3, 4, 5]
    assert waiting.non_source_count == 0


@given(
    comings=st.lists(
        st.tuples(st.floats(0, 1), st.booleans()), max_size=30, unique_by=lambda one: one[0]
    )
)
def test_bundle_queued_after_a_source_bundle_overtakes_it_only_within_the_limit(
    comings: list[tuple[float, bool]],
) -> None:
    waiting = BundleQueue(is_source, STAND_BACK)
    came = {}
    for number, (moment, source) in enumerate(sorted(comings)):
        one = bundle(number + 100 * source)
        came[one.number] = moment
        waiting.add_bundles([one], moment)
    order = order_of(waiting)
    assert sorted(order) == sorted(came)
    for place, first in enumerate(order):
        for second in order[place + 1 :]:
            overtaken = came[first] - came[second]
            assert overtaken <= 0 or (second >= 100 > first and overtaken <= STAND_BACK)
