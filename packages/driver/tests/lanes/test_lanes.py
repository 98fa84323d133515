"""Lanes: bundles wait, run and come back; none is lost, whatever becomes of the lane it was given to.

What a lane does when something happens to it:

| lane     | opened       | finished or left | lost             | ended        | idle for long | job ends  |
|----------|--------------|------------------|------------------|--------------|---------------|-----------|
| starting | idle         | -                | -                | gone         | starting      | forgotten |
| idle     | idle         | idle             | starting         | gone         | closed        | closed    |
| running  | idle, bundle | idle             | starting, bundle | gone, bundle | running       | running   |
| looping  | idle, loop   | idle or running  | starting, loop   | gone, loop   | looping       | looping   |

"bundle" and "loop": the driver takes this work back and runs it again.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import CloseLane, ExitProcess
from beam_runner_runtime.tuning import TUNING
from fake_links import LOOP, FakeLink, bundle, given, opened

from beam_runner_driver.lanes import lanes as lanes_module
from beam_runner_driver.lanes.lanes import LaneDispatcher
from beam_runner_driver.lanes.lost_work import LostWork
from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots


@attrs.define
class Cluster:
    """Lanes with a fixed clock, and the numbers of lanes that the test requested from Spark."""

    cores: int = 2
    most: int = 8
    now: float = 1000.0
    started: list[int] = attrs.field(factory=list)

    def lanes(self) -> Any:
        slots, sizes = JobSlots(ClusterSlots(), "job"), (self.cores, self.most)
        return LaneDispatcher(
            self.started.append, lambda bundle: bundle, lambda: LOOP, *sizes, slots
        )


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    monkeypatch.setattr(lanes_module, "time", SimpleNamespace(monotonic=lambda: cluster.now))
    return cluster


def test_number_of_lanes_is_limited_to_cores(cluster: Cluster) -> None:
    lanes = cluster.lanes()
    lanes.queue_bundles([bundle(n) for n in range(5)])
    lanes.assign_bundles()
    assert cluster.started == [0, 1]
    links = [FakeLink(), FakeLink()]
    for number, link in enumerate(links):
        opened(lanes, number, link)
    assert [given(link) for link in links] == [[0], [1]]
    assert lanes.alive == {0, 1}


def test_number_of_lanes_follows_available_cores(cluster: Cluster) -> None:
    lanes = cluster.lanes()
    lanes.queue_bundles([bundle(n) for n in range(9)])
    assert cluster.started == [0, 1]
    lanes.set_core_count(5, 20)
    lanes.assign_bundles()
    assert cluster.started == [0, 1, 2, 3, 4]


def test_number_of_lanes_is_limited_to_bundles(cluster: Cluster) -> None:
    lanes = cluster.lanes()
    lanes.queue_bundles([bundle(1)])
    lanes.assign_bundles()
    assert cluster.started == [0]


def test_bundles_run_in_order_as_lanes_become_free(cluster: Cluster) -> None:
    cluster.cores = 1
    lanes = cluster.lanes()
    link = FakeLink()
    bundles = [bundle(n) for n in range(4)]
    lanes.queue_bundles(bundles)
    opened(lanes, 0, link)
    lanes.assign_bundles()
    for one in bundles:
        lanes.record_bundle_end(link, Attempt.from_bundle(one))
        lanes.assign_bundles()
    assert given(link) == [0, 1, 2, 3]


def test_reply_to_another_bundle_does_not_free_lane(cluster: Cluster) -> None:
    lanes = cluster.lanes()
    link = FakeLink()
    lanes.queue_bundles([bundle(1, attempt=2), bundle(2), bundle(3)])
    opened(lanes, 0, link)
    for wrong in (Attempt(1, 1), Attempt(2, 1), Attempt(9, 2)):
        lanes.record_bundle_end(link, wrong)
    lanes.record_bundle_end(FakeLink(), Attempt(1, 2))
    lanes.assign_bundles()
    assert given(link) == [1]


def blocked_lane(cluster: Cluster) -> tuple[LaneDispatcher, FakeLink]:
    """Returns a cluster of one core whose lane runs and reports bundle 0, while bundles 1 to 4 wait."""
    cluster.cores, cluster.most = 1, 3
    lanes = cluster.lanes()
    link = FakeLink()
    lanes.queue_bundles([bundle(n) for n in range(5)])
    opened(lanes, 0, link)
    lanes.record_progress(link, Attempt(0, 1), 0.0)
    return lanes, link


def test_blocked_bundle_allows_one_more_lane(cluster: Cluster) -> None:
    lanes, _ = blocked_lane(cluster)
    cluster.now += TUNING.blocked_seconds * 0.9
    lanes.assign_bundles()
    assert cluster.started == [0]
    cluster.now += TUNING.blocked_seconds * 0.2
    lanes.assign_bundles()
    lanes.assign_bundles()
    assert cluster.started == [0, 1]


def test_lanes_for_blocked_bundles_stay_within_lane_limit(cluster: Cluster) -> None:
    lanes, _ = blocked_lane(cluster)
    for number in range(1, 6):
        cluster.now += 2 * TUNING.blocked_seconds
        lanes.assign_bundles()
        if number in cluster.started:
            link = FakeLink()
            opened(lanes, number, link)
            lanes.record_progress(link, Attempt(number, 1), 0.0)
    assert cluster.started == [0, 1, 2]


def test_bundle_with_progress_does_not_count_as_blocked(cluster: Cluster) -> None:
    lanes, link = blocked_lane(cluster)
    for step in range(1, 5):
        cluster.now += TUNING.blocked_seconds * 0.8
        lanes.record_progress(link, Attempt(0, 1), step / 10)
        lanes.assign_bundles()
    assert cluster.started == [0]


def test_progress_report_without_progress_does_not_unblock_bundle(cluster: Cluster) -> None:
    lanes, link = blocked_lane(cluster)
    lanes.record_progress(link, Attempt(0, 1), 0.5)
    cluster.now += TUNING.blocked_seconds * 1.1
    lanes.record_progress(link, Attempt(0, 1), 0.5)
    lanes.record_progress(link, Attempt(3, 1), 0.9)
    lanes.assign_bundles()
    assert cluster.started == [0, 1]


def test_bundle_of_shard_goes_to_lane_that_has_its_state(cluster: Cluster) -> None:
    lanes = cluster.lanes()
    links = [FakeLink(), FakeLink()]
    lanes.queue_bundles([bundle(1, shard=1), bundle(2, shard=2)])
    for number, link in enumerate(links):
        opened(lanes, number, link)
    lanes.record_bundle_end(links[0], Attempt(1, 1))
    lanes.record_bundle_end(links[1], Attempt(2, 1))
    lanes.queue_bundles([bundle(3, shard=2), bundle(4, shard=1)])
    assert [given(link) for link in links] == [[1, 4], [2, 3]]


def test_bundle_of_shard_does_not_wait_for_lane_that_has_its_state(cluster: Cluster) -> None:
    lanes = cluster.lanes()
    links = [FakeLink(), FakeLink()]
    lanes.queue_bundles([bundle(1, shard=1), bundle(2, shard=2)])
    for number, link in enumerate(links):
        opened(lanes, number, link)
    lanes.record_bundle_end(links[1], Attempt(2, 1))
    lanes.queue_bundles([bundle(3, shard=1)])
    assert given(links[1]) == [2, 3]


# The table above, lane by lane.


def starting(cluster: Cluster) -> tuple[Any, FakeLink]:
    cluster.cores = cluster.most = 1
    lanes = cluster.lanes()
    lanes.queue_bundles([bundle(1)])
    lanes.remove_queued_attempts([Attempt(1, 1)])
    return lanes, FakeLink()


def idle(cluster: Cluster) -> tuple[Any, FakeLink]:
    lanes, link = starting(cluster)
    opened(lanes, 0, link)
    return lanes, link


def running(cluster: Cluster) -> tuple[Any, FakeLink]:
    lanes, link = idle(cluster)
    lanes.queue_bundles([bundle(5)])
    assert given(link) == [5]
    return lanes, link


def looping(cluster: Cluster) -> tuple[Any, FakeLink]:
    lanes, link = idle(cluster)
    lanes.queue_loop()
    assert link.sent == [LOOP]
    return lanes, link


STATES = [starting, idle, running, looping]
NOTHING = LostWork()
LOSSES = {
    **dict.fromkeys((starting, idle), NOTHING),
    running: LostWork(bundle(5)),
    looping: LostWork(loop=True),
}


def takes_the_next(lanes: Any, link: FakeLink) -> bool:
    lanes.queue_bundles([bundle(8)])
    return 8 in given(link)


@pytest.mark.parametrize("state", STATES)
def test_lane_of_lost_process_is_replaced(cluster: Cluster, state: Any) -> None:
    """Spark may never detect the loss, for example if the process hangs. So another lane takes the next bundle."""
    lanes, link = state(cluster)
    assert lanes.handle_process_exit(link) == LOSSES[state]
    assert lanes.handle_process_exit(link) == NOTHING
    assert lanes.find_process(Attempt(5, 1)) is None
    assert not takes_the_next(lanes, link)
    if state is starting:
        assert cluster.started == [0]
        return
    assert cluster.started == [0, 1]
    again, other = FakeLink(), FakeLink()
    assert opened(lanes, 0, again) == NOTHING
    assert again.sent == [CloseLane()]
    assert opened(lanes, 1, other) == NOTHING
    assert takes_the_next(lanes, other)


@pytest.mark.parametrize("state", STATES)
def test_lane_ended_by_spark_is_replaced(cluster: Cluster, state: Any) -> None:
    """If the process exits with the task, Spark can report the exit before the channel does."""
    lanes, link = state(cluster)
    assert lanes.handle_lane_end(0) == LOSSES[state]
    assert lanes.handle_process_exit(link) == NOTHING
    assert lanes.handle_lane_end(0) == NOTHING
    assert lanes.alive == set()
    assert lanes.is_idle
    assert not takes_the_next(lanes, link)
    assert cluster.started == [0, 1]


@pytest.mark.parametrize("state", STATES)
def test_lane_that_spark_reopens_early_is_used(cluster: Cluster, state: Any) -> None:
    lanes, link = state(cluster)
    again = FakeLink()
    assert opened(lanes, 0, again) == LOSSES[state]
    assert lanes.handle_process_exit(link) == NOTHING
    lanes.record_bundle_end(link, Attempt(5, 1))
    assert takes_the_next(lanes, again) and 8 not in given(link)
    assert cluster.started == [0]


@pytest.mark.parametrize("state", STATES)
def test_lane_idle_beyond_limit_is_closed(cluster: Cluster, state: Any) -> None:
    lanes, link = state(cluster)
    cluster.now += TUNING.lane_idle_seconds * 0.9
    lanes.close_idle_lanes()
    assert CloseLane() not in link.sent
    cluster.now += TUNING.lane_idle_seconds * 0.2
    lanes.close_idle_lanes()
    assert (CloseLane() in link.sent) is (state is idle)
    if state is idle:
        assert not takes_the_next(lanes, link)
        assert cluster.started == [0, 1]
        assert lanes.alive == {0, 1}


@pytest.mark.parametrize("state", STATES)
def test_lane_is_closed_at_end_of_job(cluster: Cluster, state: Any) -> None:
    lanes, link = state(cluster)
    lanes.close_lanes()
    if state is starting:
        opened(lanes, 0, link)
    assert link.sent.count(CloseLane()) == (state in (starting, idle))
    assert lanes.alive == {0}
    lanes.handle_lane_end(0)
    assert lanes.alive == set()


def test_waiting_bundles_are_dropped_at_end_of_job(cluster: Cluster) -> None:
    lanes, link = running(cluster)
    lanes.queue_bundles([bundle(6)])
    lanes.close_lanes()
    lanes.record_bundle_end(link, Attempt(5, 1))
    lanes.assign_bundles()
    assert given(link) == [5]
    assert cluster.started == [0]


def test_waiting_bundle_can_be_dropped(cluster: Cluster) -> None:
    lanes, link = running(cluster)
    lanes.queue_bundles([bundle(6), bundle(7), bundle(8, attempt=2)])
    lanes.remove_queued_attempts([Attempt(5, 1), Attempt(6, 1), Attempt(8, 1)])
    for number, attempt in ((5, 1), (7, 1), (8, 2)):
        lanes.record_bundle_end(link, Attempt(number, attempt))
        lanes.assign_bundles()
    assert given(link) == [5, 7, 8]


def test_running_bundles_are_reported_when_lanes_close(cluster: Cluster) -> None:
    lanes = cluster.lanes()
    lanes.queue_bundles([bundle(5), bundle(6)])
    link, other = FakeLink(), FakeLink()
    opened(lanes, 0, link)
    opened(lanes, 1, other)
    lanes.record_bundle_end(other, Attempt(6, 1))
    assert lanes.close_lanes() == [link]
    assert other.sent[-1] == CloseLane()
    assert not lanes.has_only_busy_lanes
    lanes.handle_lane_end(1)
    assert lanes.has_only_busy_lanes


def test_worker_process_of_closed_lane_is_reused_for_next_lane(cluster: Cluster) -> None:
    """Spark assigns lanes to the same worker process, one after another."""
    lanes, link = idle(cluster)
    cluster.now += 2 * TUNING.lane_idle_seconds
    lanes.close_idle_lanes()
    lanes.handle_lane_end(0)
    lanes.queue_bundles([bundle(6)])
    opened(lanes, 1, link)
    assert given(link) == [6]
    assert lanes.find_process(Attempt(6, 1)) is link


# The loop inside a task.


def test_scheduler_loop_runs_in_one_lane_without_other_bundles(cluster: Cluster) -> None:
    lanes, link = looping(cluster)
    assert not lanes.is_idle
    assert not takes_the_next(lanes, link)
    lanes.handle_loop_end(link, None)
    lanes.assign_bundles()
    assert given(link) == [8]


def test_lane_is_opened_for_scheduler_loop(cluster: Cluster) -> None:
    lanes = cluster.lanes()
    assert lanes.is_idle
    lanes.queue_loop()
    lanes.assign_bundles()
    assert cluster.started == [0]
    assert not lanes.is_idle
    link = FakeLink()
    opened(lanes, 0, link)
    assert link.sent == [LOOP]


def test_lane_continues_bundle_that_runs_when_scheduler_loop_ends(cluster: Cluster) -> None:
    lanes, link = looping(cluster)
    lanes.handle_loop_end(link, bundle(4))
    assert lanes.find_process(Attempt(4, 1)) is link
    assert not takes_the_next(lanes, link)
    lanes.record_bundle_end(link, Attempt(4, 1))
    lanes.assign_bundles()
    assert given(link) == [8]


def test_running_or_unstarted_scheduler_loop_can_be_aborted(cluster: Cluster) -> None:
    lanes, link = looping(cluster)
    assert lanes.abort_loop()
    assert link.sent == [LOOP, ExitProcess()]
    lanes = cluster.lanes()
    lanes.queue_loop()
    assert not lanes.abort_loop()
    assert lanes.is_idle
    late = FakeLink()
    opened(lanes, 0, late)
    assert late.sent == []


def test_waiting_scheduler_loop_is_dropped_at_end_of_job(cluster: Cluster) -> None:
    lanes, link = running(cluster)
    lanes.queue_loop()
    lanes.close_lanes()
    lanes.record_bundle_end(link, Attempt(5, 1))
    lanes.assign_bundles()
    assert LOOP not in link.sent
