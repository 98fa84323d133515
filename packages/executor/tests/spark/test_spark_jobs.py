"""Tests of sections (groups of stages) as Spark jobs in separate threads: their results and their
progress are reported.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import attrs
import pytest
from beam_runner_engine.scheduler.commands import Bundle, SectionStageInput
from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, SectionRefusal
from beam_runner_runtime.channel.messages import LaneOpened, RunBundle
from beam_runner_runtime.sections.ends import SectionEnd, TaskCounts
from beam_runner_runtime.tuning import TUNING
from plain_threads import start_plain_thread

from beam_spark_executor.spark import spark_jobs as module
from beam_spark_executor.spark.pool import WorkerSlot
from beam_spark_executor.spark.spark_jobs import SparkJobPlacement

PARTS = tuple(SectionStageInput(name, (), (), 0) for name in ("A", "B"))
ORDER = RunBundle(Bundle(7, 2, "stage", None, (), (), 0, 0, 0, 0, parts=PARTS), "name")
PLAN = Mock()
WORK = Mock(plan=PLAN, shards=4)
CORES = 3
REFUSAL = SectionRefusal(Attempt(7, 2), "no")


@pytest.fixture(autouse=True)
def _threads_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "start_job_thread", start_plain_thread)


class Runner:
    """A section runner with a given result, which records its arguments."""

    made: tuple[Any, ...] = ()

    def __init__(self, *made: Any) -> None:
        assert not Runner.made, "there is one"
        Runner.made = made

    run: Any = None

    def handle_section_message(self, message: Any) -> bool:
        return bool(message == REFUSAL)


Jobs = Callable[[Callable[[RunBundle, str], SectionEnd]], tuple[SparkJobPlacement, Mock]]


@pytest.fixture
def jobs_with(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """Returns the Spark jobs of a job whose sections call this function, and the worker pools."""

    def make(run: Callable[[RunBundle, str], SectionEnd]) -> tuple[SparkJobPlacement, Mock]:
        monkeypatch.setattr(Runner, "made", ())
        monkeypatch.setattr(Runner, "run", staticmethod(run))
        monkeypatch.setattr(module, "SparkSectionRunner", Runner)
        pools = Mock()
        pools.acquire_slot.return_value = WorkerSlot(3)
        return SparkJobPlacement(
            Mock(), pools, Mock(), Mock(), "job-1", lambda: CORES, "the job"
        ), pools

    return make


def end_of(jobs: SparkJobPlacement) -> SectionEnd:
    told: queue.SimpleQueue[SectionEnd] = queue.SimpleQueue()
    jobs.start_section(ORDER, WORK, "section of A to B", told.put)
    return told.get(timeout=60)


def test_section_runs_in_pool_of_its_job_with_its_title(jobs_with: Jobs) -> None:
    titles = []

    def run(order: RunBundle, title: str) -> SectionEnd:
        titles.append(title)
        assert order is ORDER
        return REFUSAL

    jobs, pools = jobs_with(run)
    assert not jobs.handle_section_message(REFUSAL), "no section has started"
    assert end_of(jobs) == REFUSAL
    assert set(titles) == {"the job · section of A to B"}
    assert Runner.made[2] == WorkerSlot(3)
    assert Runner.made[4:] == ("job-1", PLAN, CORES)
    assert end_of(jobs) == REFUSAL
    assert jobs.handle_section_message(REFUSAL)
    assert not jobs.handle_section_message(LaneOpened(1))
    jobs.close(workers_gone=True)
    pools.release_slot.assert_called_once_with(WorkerSlot(3))


MANY = CORES * TUNING.section_tasks_per_core


@pytest.mark.parametrize(
    ("shards", "slots", "tasks"),
    [(4, None, 4), (100, None, MANY), (100, 6 * CORES, CORES), (1, 6 * CORES, 1)],
    ids=["few shards", "many shards", "one machine", "one machine, few shards"],
)
def test_section_has_several_tasks_per_core_on_cluster_and_one_on_single_machine(
    shards: int, slots: int | None, tasks: int, jobs_with: Jobs
) -> None:
    jobs, _ = jobs_with(lambda order, title: REFUSAL)
    spark: Any = jobs._spark
    spark.slots = slots
    told: queue.SimpleQueue[SectionEnd] = queue.SimpleQueue()
    work = Mock(shards=shards)
    jobs.start_section(ORDER, work, "section of A to B", told.put)
    assert told.get(timeout=60) == REFUSAL
    assert Runner.made[-1] == tasks


def test_section_fails_if_its_runner_raises(jobs_with: Jobs) -> None:
    def run(order: RunBundle, title: str) -> SectionEnd:
        raise ConnectionError("Spark is gone")

    assert end_of(jobs_with(run)[0]) == BundleFailure(
        Attempt(7, 2), None, "ConnectionError: Spark is gone"
    )


def test_section_tasks_include_only_sections_of_this_job(jobs_with: Jobs) -> None:
    jobs, _ = jobs_with(Mock())
    stages = {
        1: SimpleNamespace(numTasks=1, numActiveTasks=1, numCompletedTasks=0),
        2: SimpleNamespace(numTasks=8, numActiveTasks=0, numCompletedTasks=8),
        3: SimpleNamespace(numTasks=8, numActiveTasks=2, numCompletedTasks=1),
    }
    spark_jobs = {10: (1,), 11: (2, 3, 4), 12: (2, 3), 13: (2, 3), 14: (2,)}
    tracker = Mock()
    tracker.getJobIdsForGroup.side_effect = {"beam-job-1": [10, 11, 12, 14]}.__getitem__
    tracker.getActiveJobsIds.return_value = [10, 11, 13, 14, 15]
    tracker.getJobInfo.side_effect = lambda job: (
        None if job == 14 else SimpleNamespace(stageIds=spark_jobs[job])
    )
    tracker.getStageInfo.side_effect = stages.get
    spark: Any = jobs._spark
    spark.context.statusTracker.return_value = tracker
    assert jobs.count_section_tasks() == TaskCounts(done=9, running=2, known=16)


def test_bundle_of_table_stage_is_run_outside_of_sections(
    jobs_with: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, _ = jobs_with(lambda order, title: REFUSAL)
    broke = BundleFailure(Attempt(7, 2), None, "no table")
    monkeypatch.setattr(module, "TableBundleRunner", Mock(return_value=Mock(run=lambda *_: broke)))
    told: queue.SimpleQueue[SectionEnd] = queue.SimpleQueue()
    order = attrs.evolve(ORDER, bundle=attrs.evolve(ORDER.bundle, parts=()))
    jobs.start_section(order, WORK, "A", told.put)
    assert told.get(timeout=60) == broke
    assert not Runner.made
