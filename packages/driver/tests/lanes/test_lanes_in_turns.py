"""Tests of the lanes (worker slots) of a job whose user code shares one interpreter: one bundle at
a time, unless the interpreter is idle.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.tuning import TUNING
from fake_links import LOOP, FakeLink, bundle, given, opened

from beam_runner_driver.lanes import lanes as lanes_module
from beam_runner_driver.lanes.lanes import LaneDispatcher
from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots


@attrs.define
class Job:
    """Bundles 0 to 3 of one interpreter on two cores. Bundle 0 runs, and the clock stands still."""

    now: float = 1000.0
    started: list[int] = attrs.field(factory=list)
    link: FakeLink = attrs.field(factory=FakeLink)

    def lanes(self) -> Any:
        slots = JobSlots(ClusterSlots(), "job")
        lanes = LaneDispatcher(
            self.started.append, lambda one: one, lambda: LOOP, 2, 8, slots, takes_turns=True
        )
        lanes.queue_bundles([bundle(n) for n in range(4)])
        opened(lanes, 0, self.link)
        return lanes


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    job = Job()
    monkeypatch.setattr(lanes_module, "time", SimpleNamespace(monotonic=lambda: job.now))
    return job


def test_bundles_in_a_shared_interpreter_run_one_at_a_time(job: Job) -> None:
    lanes = job.lanes()
    lanes.record_progress(job.link, Attempt(0, 1), 0.1)
    lanes.assign_bundles()
    assert job.started == [0]
    lanes.record_bundle_end(job.link, Attempt(0, 1))
    lanes.assign_bundles()
    assert given(job.link) == [0, 1]


def test_shared_interpreter_with_idle_time_runs_one_bundle_per_core(job: Job) -> None:
    lanes = job.lanes()
    lanes.record_progress(job.link, Attempt(0, 1), 0.1, waits=True)
    lanes.assign_bundles()
    assert job.started == [0, 1]
    other = FakeLink()
    opened(lanes, 1, other)
    assert given(other) == [1]
    # As soon as a bundle no longer reports idle time, a finished bundle makes no room for another
    # bundle.
    lanes.record_bundle_end(other, Attempt(1, 1))
    lanes.record_progress(job.link, Attempt(0, 1), 0.2, waits=False)
    lanes.assign_bundles()
    assert given(other) == [1]


def test_blocked_bundle_leaves_shared_interpreter_to_another_bundle(job: Job) -> None:
    lanes = job.lanes()
    lanes.record_progress(job.link, Attempt(0, 1), 0.0)
    job.now += TUNING.blocked_seconds * 1.1
    lanes.assign_bundles()
    assert job.started == [0, 1]
    other = FakeLink()
    opened(lanes, 1, other)
    assert given(other) == [1]


def test_bundle_that_computes_one_element_long_does_not_count_as_blocked(job: Job) -> None:
    lanes = job.lanes()
    for _ in range(10):
        lanes.record_progress(job.link, Attempt(0, 1), 0.0, waits=False)
        job.now += TUNING.blocked_seconds * 1.1
        lanes.assign_bundles()
    assert job.started == [0]


def test_bundle_in_shared_interpreter_without_report_is_not_blocked(job: Job) -> None:
    lanes = job.lanes()
    job.now += TUNING.blocked_seconds * 1.1
    lanes.assign_bundles()
    assert job.started == [0]
    job.now += TUNING.unheard_seconds
    lanes.assign_bundles()
    assert job.started == [0, 1]
