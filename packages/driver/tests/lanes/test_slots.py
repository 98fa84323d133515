"""Tests of slots: a job with few lanes gets a slot from a job with more lanes."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import CloseLane, LeaveLoop
from beam_runner_runtime.tuning import TUNING
from clocks import Clock, clock_of
from fake_links import FakeLink, bundle, opened

from beam_runner_driver.lanes import lanes as lanes_module
from beam_runner_driver.lanes import slots as module
from beam_runner_driver.lanes.lanes import LaneDispatcher
from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return clock_of(module, monkeypatch)


def _holding(slots: ClusterSlots, job_id: str, lanes: int) -> JobSlots:
    job = JobSlots(slots, job_id)
    for lane in range(lanes):
        job.record_requested_slot(lane)
        job.record_received_slot(lane)
    return job


def test_job_must_release_slot_while_another_job_waits(clock: Clock) -> None:
    slots = ClusterSlots(5)
    job, other = _holding(slots, "mine", 4), JobSlots(slots, "other")
    for lane, come in enumerate((other.record_received_slot, other.count_released_slot)):
        other.record_requested_slot(lane)
        assert not job.must_release_slot, "no job has waited yet"
        clock.now += 1
        assert job.must_release_slot
        assert other.free_slots == 0
        come(lane)
        assert not job.must_release_slot
        other.count_released_slot(lane)
    other.record_requested_slot(2)
    clock.now += 1
    other.release_all_slots_of_job()
    assert not job.must_release_slot
    assert job.free_slots == 1


def test_jobs_waiting_for_slots_are_woken_as_other_jobs_end(clock: Clock) -> None:
    slots = ClusterSlots(1)
    first, second, third = (JobSlots(slots, name) for name in ("first", "second", "third"))
    woken: list[str] = []
    assert first.try_start_job(lambda: woken.append("first"))
    assert not second.try_start_job(lambda: woken.append("second"))
    assert not third.try_start_job(lambda: woken.append("third"))
    first.release_all_slots_of_job()
    assert woken == ["second"]
    assert not third.try_start_job(lambda: woken.append("third"))
    assert second.try_start_job(lambda: woken.append("second"))
    clock.now += TUNING.job_turn_seconds
    assert third.try_start_job(lambda: woken.append("third")), "a long job blocks no other job"


def test_lane_is_released_to_another_job_only_after_work(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs progress even if Spark starts a lane more slowly than other jobs wait."""
    monkeypatch.setattr(lanes_module, "time", clock)
    slots = ClusterSlots()
    other = JobSlots(slots, "other")
    other.record_requested_slot(0)
    clock.now += 1
    started: list[int] = []
    sent: list[object] = []
    lanes = LaneDispatcher(
        started.append, lambda bundle: bundle, lambda: "loop", 2, 8, JobSlots(slots, "mine")
    )
    link: Any = Mock(send=sent.append)
    lanes.queue_loop()
    lanes.handle_opened_lane(started[0], link)
    lanes.assign_bundles()
    assert sent == ["loop"]
    lanes.handle_loop_end(link, None)
    lanes.queue_loop()
    assert isinstance(sent[-1], CloseLane), "the other job gets the slot"
    lanes.assign_bundles()
    assert len(started) == 1, "and Spark can't give it to this one again"
    other.record_received_slot(0)
    lanes.assign_bundles()
    assert len(started) == 2, "this job then requests another slot"


def test_job_with_blocked_lanes_requests_no_slots_that_other_jobs_need(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes_module, "time", clock)
    slots = ClusterSlots(7)
    started: list[int] = []
    lanes = LaneDispatcher(
        started.append, lambda one: one, lambda: "loop", 2, 8, JobSlots(slots, "mine")
    )
    lanes.queue_bundles([bundle(n) for n in range(20)])
    for number in range(20):
        if number in started:
            link = FakeLink()
            opened(lanes, number, link)
            lanes.record_progress(link, Attempt(number, 1), 0.0)
        clock.now += 2 * TUNING.blocked_seconds
        lanes.assign_bundles()
    assert started == [0, 1, 2, 3, 4], "two of seven are left, one per core"
    _holding(slots, "other", 1)
    assert JobSlots(slots, "third").free_slots == 1


def test_job_can_request_default_number_of_lanes_without_free_slots(clock: Clock) -> None:
    started: list[int] = []
    slots = JobSlots(ClusterSlots(1), "mine")
    lanes = LaneDispatcher(started.append, lambda one: one, lambda: "loop", 2, 8, slots)
    lanes.queue_bundles([bundle(n) for n in range(5)])
    assert started == [0, 1], "Spark has them wait"


def test_scheduler_loop_is_asked_once_to_release_lane_for_job_without_lanes(clock: Clock) -> None:
    slots = ClusterSlots()
    job = JobSlots(slots, "mine")
    lanes: Any = LaneDispatcher(Mock(), Mock(), Mock(), 2, 8, job)
    lanes.queue_loop()
    link = FakeLink()
    opened(lanes, 0, link)
    (order,) = link.sent
    JobSlots(slots, "other").record_requested_slot(0)
    clock.now += 1
    lanes.assign_bundles()
    lanes.assign_bundles()
    assert link.sent == [order, LeaveLoop()]
    lanes.handle_loop_end(link, None)
    lanes.assign_bundles()
    assert link.sent[-1] == CloseLane()
