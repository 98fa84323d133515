"""Tests of the standby task: it waits, gets exactly one lane, or is dismissed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from beam_runner_model.stages import JobContext
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.endpoints import make_job_scope
from beam_runner_runtime.channel.messages import (
    CloseLane,
    ExitProcess,
    FromWorker,
    JobWork,
    LaneOpened,
)
from beam_runner_runtime.channel.place import ChannelAddress
from beam_runner_runtime.channel.server import ChannelServer, WorkerLink
from beam_runner_runtime.channel.stand_by import EndStandBy, ServeLane
from beam_runner_storage.stores.spec import StoreSpec
from waiting import wait_until

from beam_spark_executor.spark import stand_by
from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.session import RunningSpark
from beam_spark_executor.spark.spark_jobs import SparkJobPlacement
from beam_spark_executor.spark.stand_by import StandbyTask, StandbyTaskKeeper

SECONDS = 60
LANE = ServeLane("job-1", 0)


def never(number: int, error: str) -> None:
    pytest.fail("the standby task has no lane")


@pytest.fixture
def one() -> StandbyTask:
    return StandbyTask(7, WorkerSlot(0))


def test_standby_task_gets_no_order_without_a_job(one: StandbyTask) -> None:
    assert one.wait_for_assignment(0) is None


def test_standby_task_gets_order_immediately(one: StandbyTask) -> None:
    found: list[Any] = []
    asking = threading.Thread(target=lambda: found.append(one.wait_for_assignment(SECONDS)))
    asking.start()
    assert one.assign_lane(LANE, never)
    asking.join(SECONDS)
    assert found == [LANE]


def test_repeated_standby_task_gets_same_order(one: StandbyTask) -> None:
    one.assign_lane(LANE, never)
    one.end_unless_assigned()
    assert [one.wait_for_assignment(0), one.wait_for_assignment(0)] == [LANE, LANE]


def test_standby_task_end_is_reported_to_lane_owner(one: StandbyTask) -> None:
    told: list[tuple[int, str]] = []
    one.assign_lane(LANE, lambda number, error: told.append((number, error)))
    one.on_task_end("Spark is gone")
    assert told == [(0, "Spark is gone")]


def test_standby_task_that_ended_gets_no_lane(one: StandbyTask) -> None:
    one.on_task_end("killed")
    assert not one.assign_lane(LANE, never)


def test_standby_task_with_assigned_lane_gets_no_second_lane(one: StandbyTask) -> None:
    assert one.assign_lane(LANE, never)
    assert not one.assign_lane(ServeLane("job-1", 1), never)
    assert one.wait_for_assignment(0) == LANE


def test_dismissed_standby_task_exits(one: StandbyTask) -> None:
    one.end_unless_assigned()
    assert one.wait_for_assignment(SECONDS) == EndStandBy()
    one.on_task_end("")


@attrs.define(eq=False)
class FakeJob:
    """A job from the view of the channel."""

    folder: Path
    links: queue.SimpleQueue[WorkerLink] = attrs.field(factory=queue.SimpleQueue)
    said: queue.SimpleQueue[FromWorker] = attrs.field(factory=queue.SimpleQueue)

    def make_job_work(self) -> JobWork:
        context = JobContext(job_id="job-1", job_name="name", options_json="{}", environments={})
        return JobWork(JobPlan(context, {}, {}), 4, StoreSpec(str(self.folder)))

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        raise KeyError(sha256)

    def handle_worker_attached(self, link: WorkerLink) -> None:
        self.links.put(link)

    def handle_message(self, link: WorkerLink, message: FromWorker) -> None:
        self.said.put(message)

    def handle_worker_detached(self, link: WorkerLink) -> None:
        pass


@attrs.frozen
class OnSpark:
    """Standby tasks of one job on a Spark session."""

    job: FakeJob
    stand_bys: StandbyTaskKeeper
    jobs: SparkJobPlacement


@pytest.fixture
def on_spark(spark: RunningSpark, pools: WorkerPools, tmp_path: Path) -> Iterator[OnSpark]:
    job = FakeJob(tmp_path)
    server = ChannelServer(
        ChannelAddress(), {"job-1": job}.get, lambda n: stand_bys.get_standby_order(n)
    )
    stand_bys = StandbyTaskKeeper(pools, server.endpoints, wanted=True)
    server.start()
    stand_bys.ensure_standby()
    endpoint = server.endpoints.make_endpoint(make_job_scope("job-1"))
    jobs = SparkJobPlacement(spark, pools, stand_bys, endpoint, "job-1", lambda: 1)
    yield OnSpark(job, stand_bys, jobs)
    stand_bys.close()
    server.stop()


def wait_for_tasks(spark: RunningSpark, number: int) -> None:
    """Waits until Spark runs `count` jobs with one task each."""
    tracker = spark.context.statusTracker()
    wait_until(lambda: len(tracker.getActiveJobsIds()) == number, SECONDS)


@pytest.mark.spark
@pytest.mark.timeout(200)
def test_standby_task_serves_first_lane_of_job(spark: RunningSpark, on_spark: OnSpark) -> None:
    tracker = spark.context.statusTracker()
    ends: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
    on_spark.jobs.start_lane(0, lambda number, error: ends.put((number, error)))
    link = on_spark.job.links.get(timeout=SECONDS)
    assert on_spark.job.said.get(timeout=SECONDS) == LaneOpened(0)
    assert list(tracker.getJobIdsForGroup("beam-job-1")) == []
    link.send(CloseLane())
    assert ends.get(timeout=SECONDS) == (0, "")
    link.send(ExitProcess())
    on_spark.jobs.close(workers_gone=False)


@pytest.mark.spark
@pytest.mark.timeout(200)
def test_standby_task_of_job_without_lanes_stays_for_next_job(
    spark: RunningSpark, on_spark: OnSpark
) -> None:
    wait_for_tasks(spark, 1)
    on_spark.jobs.close(workers_gone=True)
    on_spark.stand_bys.ensure_standby()
    waiting = on_spark.stand_bys.take_standby()
    assert waiting is not None
    waiting.end_unless_assigned()
    wait_for_tasks(spark, 0)


@pytest.mark.spark
@pytest.mark.timeout(200)
def test_standby_task_ends_at_server_shutdown(spark: RunningSpark, on_spark: OnSpark) -> None:
    wait_for_tasks(spark, 1)
    on_spark.stand_bys.close()
    wait_for_tasks(spark, 0)
    on_spark.stand_bys.ensure_standby()
    wait_for_tasks(spark, 0)


def test_standby_task_is_not_started_after_spark_exit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PySpark calls Java when it starts a thread, and raises an error."""

    def no_thread(*_: Any) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(stand_by, "start_job_thread", no_thread)
    no_context: Any = None
    pools = WorkerPools(no_context)
    stand_bys = StandbyTaskKeeper(pools, cast("Any", None), wanted=True)
    stand_bys.ensure_standby()
    assert stand_bys.take_standby() is None
    assert pools.acquire_slot() == WorkerSlot(0, 1), "its own was given up"
    (record,) = caplog.records
    assert "Connection refused" in record.getMessage() and record.exc_info is None
    stand_bys.close()


def test_standby_task_is_not_started_without_spare_slot() -> None:
    no_spark: Any = None
    stand_bys = StandbyTaskKeeper(no_spark, no_spark, wanted=False)
    stand_bys.ensure_standby()
    assert stand_bys.take_standby() is None
