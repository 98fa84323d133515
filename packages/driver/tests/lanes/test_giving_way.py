"""Tests of sources that yield their lanes (worker slots) to bundles that process the output of the
sources.

Bundles of sources have numbers from 100 in this module.
"""

from __future__ import annotations

import pytest
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.tuning import TUNING
from clocks import Clock, clock_of
from fake_links import LOOP, FakeLink, bundle, given, opened

from beam_runner_driver.lanes import lanes as lanes_module
from beam_runner_driver.lanes.lanes import LaneDispatcher
from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return clock_of(lanes_module, monkeypatch)


def is_source(one: Bundle) -> bool:
    return one.number >= 100


def at_work(*numbers: int) -> tuple[LaneDispatcher, list[FakeLink]]:
    """Returns lanes (worker slots) that run exactly these bundles."""
    count = len(numbers)
    lanes = LaneDispatcher(
        lambda _: None,
        lambda b: b,
        lambda: LOOP,
        count,
        count,
        JobSlots(ClusterSlots(), "job"),
        is_source,
    )  # type: ignore[arg-type,return-value]
    links = [FakeLink() for _ in numbers]
    lanes.queue_bundles([bundle(number) for number in numbers])
    for number, link in enumerate(links):
        opened(lanes, number, link)
    return lanes, links


def test_source_yields_its_lane_after_its_time_slice(clock: Clock) -> None:
    lanes, (link,) = at_work(100)
    assert lanes.seconds_to_next_yield is None
    clock.now += TUNING.yield_seconds / 2
    lanes.queue_bundles([bundle(1)])
    assert lanes.seconds_to_next_yield == pytest.approx(TUNING.yield_seconds / 2)
    assert lanes.take_yielding_bundles() == []
    clock.now += TUNING.yield_seconds
    assert lanes.seconds_to_next_yield == 0
    assert lanes.take_yielding_bundles() == [Attempt(100, 1)]
    assert lanes.take_yielding_bundles() == []
    assert lanes.seconds_to_next_yield is None
    lanes.record_bundle_end(link, Attempt(100, 1))  # type: ignore[arg-type]
    lanes.assign_bundles()
    assert given(link) == [100, 1]


def test_source_that_could_not_split_gets_another_yield_request(clock: Clock) -> None:
    lanes, _ = at_work(100)
    lanes.queue_bundles([bundle(1)])
    clock.now += 2 * TUNING.yield_seconds
    assert lanes.take_yielding_bundles() == [Attempt(100, 1)]
    lanes.record_failed_yield(Attempt(100, 1))
    assert lanes.take_yielding_bundles() == []
    clock.now += 2 * TUNING.yield_seconds
    assert lanes.take_yielding_bundles() == [Attempt(100, 1)]


def test_source_gets_longer_time_slice_on_busy_machine(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes, _ = at_work(100)
    monkeypatch.setattr(lanes._slowness, "measure_factor", lambda: 5.0)
    lanes.queue_bundles([bundle(1)])
    clock.now += 2 * TUNING.yield_seconds
    assert lanes.take_yielding_bundles() == []
    clock.now += TUNING.yield_seconds
    assert lanes.take_yielding_bundles() == [Attempt(100, 1)]


def test_sources_that_give_up_lanes_are_at_most_waiting_bundles(clock: Clock) -> None:
    lanes, _ = at_work(100, 101, 102)
    clock.now += 2 * TUNING.yield_seconds
    lanes.queue_bundles([bundle(1), bundle(103)])
    assert len(lanes.take_yielding_bundles()) == 1
    lanes.queue_bundles([bundle(2)])
    assert len(lanes.take_yielding_bundles()) == 1


def test_only_sources_give_up_lanes_and_only_for_other_stages(clock: Clock) -> None:
    lanes, _ = at_work(100, 1)
    clock.now += 2 * TUNING.yield_seconds
    lanes.queue_bundles([bundle(101)])
    assert lanes.take_yielding_bundles() == []
    lanes, _ = at_work(1)
    clock.now += 2 * TUNING.yield_seconds
    lanes.queue_bundles([bundle(2)])
    assert lanes.take_yielding_bundles() == []
