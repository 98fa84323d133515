"""Spark jobs of one Beam job: its lanes, its sections, and its bundles that read or write tables."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from beam_runner_runtime.channel.attempts import BundleFailure
from beam_runner_runtime.channel.messages import Endpoint, FromWorker, JobWork, RunBundle
from beam_runner_runtime.channel.stand_by import LaneRef, ServeLane
from beam_runner_runtime.sections.ends import SectionEnd, TaskCounts
from beam_runner_runtime.tuning import TUNING

from beam_spark_executor.spark.lane import run_lane
from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.reading import TableData
from beam_spark_executor.spark.sections import SparkSectionRunner
from beam_spark_executor.spark.session import RunningSpark
from beam_spark_executor.spark.stand_by import StandbyTask, StandbyTaskKeeper
from beam_spark_executor.spark.table_bundles import TableBundleRunner
from beam_spark_executor.spark.threads import start_job_thread


class SparkJobPlacement:
    """Starts and cancels the Spark jobs of one Beam job, which run in the Python workers of the
    job's slot.

    Only the job's own thread may call the methods of this class, except `is_alive` and `heard`.

    Args:
        endpoint: the channel's address for the job's processes.
        cores: returns the number of tasks that Spark can run in parallel.
        name: the job's name on Spark's pages.
    """

    def __init__(
        self,
        spark: RunningSpark,
        pools: WorkerPools,
        stand_bys: StandbyTaskKeeper,
        endpoint: Endpoint,
        job_id: str,
        cores: Callable[[], int],
        name: str = "",
    ) -> None:
        self._spark = spark
        self._pools = pools
        self._endpoint = endpoint
        self._job_id = job_id
        self._cores = cores
        self._stand_bys = stand_bys
        self._stand_by: StandbyTask | None = None
        self._slot: WorkerSlot | None = None
        self._group = f"beam-{job_id}"
        self._name = name or job_id
        self._runner: SparkSectionRunner | None = None
        self._tables: TableBundleRunner | None = None

    @property
    def loss_message(self) -> str:
        """Error text for jobs whose Spark has exited unexpectedly."""
        return "Spark exited unexpectedly"

    @property
    def interface(self) -> str:
        """URL of Spark's web UI; empty if the web UI is disabled."""
        return str(self._spark.context.uiWebUrl or "")

    @property
    def is_alive(self) -> bool:
        """Returns whether Spark itself runs; takes about 1 ms."""
        return self._spark.is_alive

    def start_lane(self, number: int, on_end: Callable[[int, str], None]) -> None:
        """Runs a lane (a worker for bundles) as a Spark job of one task, on a separate thread.

        The first lane may go to the standby task. When the lane ends, ``on_end`` is called with its
        number, and with Spark's error in a few words or an empty text.
        """
        if self._slot is None:
            self._stand_by = self._stand_bys.take_standby()
            self._slot = (
                self._pools.acquire_slot() if self._stand_by is None else self._stand_by.slot
            )
        order = ServeLane(self._job_id, number)
        if self._stand_by is not None and self._stand_by.assign_lane(order, on_end):
            return
        start_job_thread(
            f"lane-{number}",
            partial(self._run_lane, self._slot, number, on_end),
            lambda error: on_end(number, f"{type(error).__name__}: {error}"),
        )

    def start_section(
        self, order: RunBundle, work: JobWork, title: str, on_end: Callable[[SectionEnd], None]
    ) -> None:
        """Runs a section, or a table bundle, as a Spark job on a separate thread. The thread calls
        ``on_end`` when the job has ended.
        """
        runner = (
            self._get_section_runner(work)
            if order.bundle.parts
            else self._get_table_bundle_runner(work)
        )
        start_job_thread(
            f"section-{order.bundle.number}",
            lambda: on_end(runner.run(order, f"{self._name} · {title}")),
            lambda error: on_end(
                BundleFailure(order.attempt, None, f"{type(error).__name__}: {error}")
            ),
        )

    def handle_section_message(self, message: FromWorker) -> bool:
        """Handles a message from a worker process if the message is about a running section (Spark
        job). Returns whether it was.
        """
        return self._runner is not None and self._runner.handle_section_message(message)

    def count_section_tasks(self) -> TaskCounts:
        """Returns the task counts of all Spark jobs, except of the jobs that run lanes (worker
        slots). Takes some milliseconds.
        """
        tracker = self._spark.context.statusTracker()
        done = running = known = 0
        mine = set(tracker.getJobIdsForGroup(self._group))
        for job in mine.intersection(tracker.getActiveJobsIds()):
            info = tracker.getJobInfo(job)
            stages = [] if info is None else list(map(tracker.getStageInfo, info.stageIds))
            if len(stages) == 1 and stages[0] is not None and stages[0].numTasks == 1:
                continue  # Skip the Spark job of a lane
            for stage in filter(None, stages):
                done += stage.numCompletedTasks
                running += stage.numActiveTasks
                known += stage.numTasks
        return TaskCounts(done, running, known)

    def cancel(self) -> None:
        """Cancels all Spark jobs of this Beam job. Doesn't wait for their end."""
        if self._tables is not None:
            self._tables.stop()
        self._spark.context.cancelJobGroup(self._group)
        if self._stand_by is not None:
            self._spark.context.cancelJobGroup(self._stand_by.group)

    def close(self, *, workers_gone: bool) -> None:
        """Returns the slot to the pool of slots. If some of the slot's Python workers may still
        run, retires the slot instead.
        """
        if self._slot is None:
            return
        if workers_gone:
            self._pools.release_slot(self._slot)
        else:
            self._pools.retire_slot(self._slot)

    def _run_lane(self, slot: WorkerSlot, number: int, on_end: Callable[[int, str], None]) -> None:
        lane = partial(run_lane, LaneRef(self._endpoint, self._job_id, number))
        title = f"{self._name} · lane {number}"
        on_end(number, self._pools.run_single_task(lane, slot, self._group, title))

    def _count_section_tasks_per_core(self) -> int:
        """Returns the number of a section's tasks per core.

        On a cluster, consecutive tasks share a process. On one machine, all tasks run at the same
        time, and each task starts a process.
        """
        return TUNING.section_tasks_per_core if self._spark.slots is None else 1

    def _acquire_slot(self) -> WorkerSlot:
        if self._slot is None:
            self._slot = self._pools.acquire_slot()
        return self._slot

    def _get_section_runner(self, work: JobWork) -> SparkSectionRunner:
        if self._runner is None:
            self._runner = SparkSectionRunner(
                self._spark.context,
                self._pools,
                self._acquire_slot(),
                self._endpoint,
                self._job_id,
                work.plan,
                min(work.shards, self._count_section_tasks_per_core() * self._cores()),
            )
        return self._runner

    def _get_table_bundle_runner(self, work: JobWork) -> TableBundleRunner:
        if self._tables is None:
            data = TableData(self._job_id, work.store, work.shards, work.folder)
            self._tables = TableBundleRunner(
                self._spark.session, self._pools, self._acquire_slot(), work.plan, data
            )
        return self._tables
