"""Tests of slots: a job with few lanes gets a slot from a job with more lanes."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from clocks import Clock, clock_of
from fake_links import FakeLink, bundle, opened

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import CloseLane, LeaveLoop
from beam_runner_runtime.driver import lanes as lanes_module
from beam_runner_runtime.driver import slots as module
from beam_runner_runtime.driver.lanes import LaneDispatcher
from beam_runner_runtime.driver.slots import ClusterSlots, JobSlots
from beam_runner_runtime.tuning import TUNING


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return clock_of(module, monkeypatch)


def _holding(slots: ClusterSlots, job_id: str, lanes: int) -> JobSlots:
    job = JobSlots(slots, job_id)
    for lane in range(lanes):
        job.started(lane)
        job.opened(lane)
    return job


def test_job_is_notified_when_others_need_or_get_slot(clock: Clock) -> None:
    slots = ClusterSlots(5)
    job, other = _holding(slots, "mine", 4), JobSlots(slots, "other")
    for lane, come in enumerate((other.opened, other.ended)):
        other.started(lane)
        assert not job.owes_slot, "no job has waited yet"
        clock.now += 1
        assert job.owes_slot
        assert other.free_slots == 0
        come(lane)
        assert not job.owes_slot
        other.ended(lane)
    other.started(2)
    clock.now += 1
    other.release_all_slots()
    assert not job.owes_slot
    assert job.free_slots == 1


def test_waiting_jobs_are_woken_as_other_jobs_end(clock: Clock) -> None:
    slots = ClusterSlots(1)
    first, second, third = (JobSlots(slots, name) for name in ("first", "second", "third"))
    woken: list[str] = []
    assert first.try_start_job(lambda: woken.append("first"))
    assert not second.try_start_job(lambda: woken.append("second"))
    assert not third.try_start_job(lambda: woken.append("third"))
    first.release_all_slots()
    assert woken == ["second"]
    assert not third.try_start_job(lambda: woken.append("third"))
    assert second.try_start_job(lambda: woken.append("second"))
    clock.now += TUNING.job_turn_seconds
    assert third.try_start_job(lambda: woken.append("third")), "a long job blocks no other job"


def test_lane_is_released_only_after_work(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs progress even if Spark starts a lane more slowly than other jobs wait."""
    monkeypatch.setattr(lanes_module, "time", clock)
    slots = ClusterSlots()
    other = JobSlots(slots, "other")
    other.started(0)
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
    other.opened(0)
    lanes.assign_bundles()
    assert len(started) == 2, "this job then requests another slot"


def test_lanes_next_to_blocked_lanes_leave_slots_to_other_jobs(
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


def test_job_gets_its_default_lanes_regardless_of_free_slots(clock: Clock) -> None:
    started: list[int] = []
    slots = JobSlots(ClusterSlots(1), "mine")
    lanes = LaneDispatcher(started.append, lambda one: one, lambda: "loop", 2, 8, slots)
    lanes.queue_bundles([bundle(n) for n in range(5)])
    assert started == [0, 1], "Spark has them wait"


def test_loop_is_asked_once_for_its_lane_when_another_job_has_none(clock: Clock) -> None:
    slots = ClusterSlots()
    job = JobSlots(slots, "mine")
    lanes: Any = LaneDispatcher(Mock(), Mock(), Mock(), 2, 8, job)
    lanes.queue_loop()
    link = FakeLink()
    opened(lanes, 0, link)
    (order,) = link.told
    JobSlots(slots, "other").started(0)
    clock.now += 1
    lanes.assign_bundles()
    lanes.assign_bundles()
    assert link.told == [order, LeaveLoop()]
    lanes.handle_loop_end(link, None)
    lanes.assign_bundles()
    assert link.told[-1] == CloseLane()
