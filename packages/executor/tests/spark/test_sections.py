"""Tests of sections (several stages in one Spark job) on a real Spark: rows go through the Spark
shuffle, and failures end a section immediately.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from beam_runner_runtime.channel.attempts import BundleFailure, SectionRefusal
from beam_runner_runtime.channel.endpoints import make_job_scope
from beam_runner_runtime.channel.messages import BundleReply, JobWork, RunBundle
from beam_runner_runtime.channel.place import ChannelAddress
from beam_runner_runtime.channel.server import ChannelServer
from beam_runner_storage.stores.spec import StoreSpec
from plans import Build, make_plan
from section_jobs import SectionJob, goes_to_workers, texts
from section_runs import SHARDS, order_of
from waiting import wait_until

from beam_spark_executor.spark.exchange import SparkShuffles
from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.sections import SparkSectionRunner
from beam_spark_executor.spark.session import RunningSpark

pytestmark = pytest.mark.spark
goes_to_workers(__name__)
SECONDS = 60
COUNT = 4000
JOB = "sections-1"


def groups(p: beam.Pipeline) -> Any:
    some = p | beam.Create(range(COUNT)) | beam.Reshuffle()
    pairs = some | "pair" >> beam.Map(lambda n: (f"k{n % 50:02}", n))
    more = p | "more" >> beam.Create([(f"k{n:02}", -1) for n in range(50)])
    return {"some": pairs, "more": more} | "join" >> beam.CoGroupByKey()


def joined(p: beam.Pipeline) -> None:
    found = groups(p) | "again" >> beam.MapTuple(lambda k, v: (k[-1], sum(v["some"])))
    found = found | "sum" >> beam.CombinePerKey(sum)
    (
        found
        | "text" >> beam.MapTuple(lambda k, v: f"<{k}={v}>")
        | "out" >> beam.Reshuffle()
        | "last" >> beam.Map(str)
    )


def failing(p: beam.Pipeline) -> None:
    groups(p) | "bad" >> beam.MapTuple(lambda k, v: 1 // (k != "k07")) | "out" >> beam.Reshuffle()


def slow(p: beam.Pipeline) -> None:
    groups(p) | "slow" >> beam.Map(lambda one: time.sleep(10 * SECONDS)) | "out" >> beam.Reshuffle()


@pytest.fixture
def start(
    spark: RunningSpark, pools: WorkerPools, slot: WorkerSlot, tmp_path: Path
) -> Iterator[Callable[..., tuple[SparkSectionRunner, RunBundle]]]:
    jobs: dict[str, SectionJob] = {}
    server = ChannelServer(ChannelAddress(), jobs.get, lambda number: None)
    server.start()

    def make(build: Build, pool: str = "") -> tuple[SparkSectionRunner, RunBundle]:
        plan = make_plan(build, pool)
        job = jobs[JOB] = SectionJob(JobWork(plan, SHARDS, StoreSpec(str(tmp_path))))
        within = [name for name, stage in plan.stages.items() if "last" not in stage.spec.name]
        job.runner = SparkSectionRunner(
            spark.context,
            pools,
            slot,
            server.endpoints.make_endpoint(make_job_scope(JOB)),
            JOB,
            plan,
            SHARDS,
        )
        return job.runner, order_of(plan, within)

    yield make
    for job in jobs.values():
        job.end()
    server.stop()


def run(
    runner: SparkSectionRunner, order: RunBundle
) -> BundleReply | BundleFailure | SectionRefusal:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(runner.run(order, "the title")))
    thread.start()
    thread.join(SECONDS)
    assert found, "the section hangs"
    reply: BundleReply | BundleFailure | SectionRefusal = found[0]
    return reply


def test_section_rows_go_through_shuffle(start: Any, tmp_path: Path, spark: RunningSpark) -> None:
    runner, order = start(joined)
    reply = run(runner, order)
    assert isinstance(reply, BundleReply), reply
    expected = [f"{k}={sum(range(k, COUNT, 10))}" for k in range(10)]
    assert Counter(texts(tmp_path, reply)) == Counter(expected)
    tracker = spark.context.statusTracker()
    jobs = tracker.getJobIdsForGroup(f"beam-{JOB}")
    stages = [tracker.getStageInfo(id) for id in tracker.getJobInfo(max(jobs)).stageIds]
    names = [stage.name for stage in sorted(stages, key=lambda stage: stage.stageId)]
    assert "join" in " ".join(names) and "sum" in " ".join(names)
    assert len(names) >= 4


def shuffle_files(spark: RunningSpark, shuffles: Collection[int]) -> set[str]:
    """Returns the names of the shuffle files of these shuffles."""
    jvm = spark.context._jvm
    assert jvm is not None
    temporary = Path(jvm.java.lang.System.getProperty("java.io.tmpdir"))
    names = [path.name for path in temporary.glob("blockmgr-*/*/shuffle_*")]
    return {name for name in names if int(name.split("_")[1]) in shuffles}


@pytest.mark.parametrize("build", [joined, failing])
def test_shuffle_files_of_finished_section_are_removed(
    build: Build, start: Any, spark: RunningSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests share this Spark, and Spark keeps their shuffle files until Java collects garbage.
    shuffles: set[int] = set()
    files: set[str] = set()
    remove = SparkShuffles.remove_files

    def remove_after_a_look(self: SparkShuffles) -> None:
        shuffles.update(self._shuffles)
        files.update(shuffle_files(spark, shuffles))
        remove(self)

    monkeypatch.setattr(SparkShuffles, "remove_files", remove_after_a_look)
    run(*start(build))
    assert files
    wait_until(lambda: not shuffle_files(spark, shuffles), SECONDS)


def test_failing_user_code_is_not_retried_by_spark(start: Any, spark: RunningSpark) -> None:
    runner, order = start(failing)
    reply = run(runner, order)
    assert isinstance(reply, BundleFailure)
    assert reply.failure is not None
    assert (reply.failure.transform, reply.failure.summary[:17]) == ("bad", "ZeroDivisionError")


def test_sdk_that_does_not_start_is_reported_by_its_stage(start: Any) -> None:
    runner, order = start(joined, "localhost:1")
    reply = run(runner, order)
    assert isinstance(reply, BundleFailure)
    assert reply.failure is None
    stage = r"\S*Create/FlatMap\(.*"
    assert re.match(rf"{stage}: PoolUnreachable: the worker pool at localhost:1 of", reply.reason)


def test_cancelled_section_ends_immediately_with_reason_of_spark(
    start: Any, spark: RunningSpark
) -> None:
    runner, order = start(slow)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(runner.run(order, "slow")))
    thread.start()
    deadline = time.monotonic() + SECONDS
    while thread.is_alive() and time.monotonic() < deadline:
        # Cancel repeatedly, because at first Spark has no job that could be cancelled.
        spark.context.cancelJobGroup(f"beam-{JOB}")
        thread.join(0.5)
    assert not thread.is_alive()
    (broke,) = found
    assert isinstance(broke, BundleFailure)
    assert broke.failure is None
    assert "cancel" in broke.reason.lower(), broke.reason
