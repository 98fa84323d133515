"""Pools of Python workers by slot, so that two jobs never share a Python process.

Spark keeps a pool of Python workers, forked from a separate daemon, for every distinct set of
environment variables. Each running job holds one *slot*, whose name is such a variable. So
concurrent jobs have different daemons. Consecutive jobs share a warm daemon but no worker, because
every worker process exits with its job.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
from beam_spark_io.spark.reasons import find_failure_reason

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

SLOT_VARIABLE = "BEAM_SPARK_SLOT"
"""Internal environment variable with the name of the job slot whose Python workers a Spark task uses."""

ArrowFunction = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


@attrs.frozen(order=True)
class WorkerSlot:
    """Slot of a running job: number of the slot, and ``generation`` (how often the slot has got a
    new pool of Python workers). Spark selects the pool by both numbers.
    """

    number: int
    generation: int = 0

    @property
    def name(self) -> str:
        """Name of the slot: the value of `SLOT_VARIABLE`, and of Spark's property ``spark.scheduler.pool``."""
        return f"slot-{self.number}.{self.generation}"


class WorkerPools:
    """Allocator of slots to jobs; the lowest free number is first. Thread-safe.

    Consecutive jobs all get slot 0, whose daemon is warm. The number of daemons is at most the
    maximum number of concurrent jobs so far, plus the number of retired slots.

    Args:
        environment: additional variables for all workers.
    """

    def __init__(self, context: SparkContext, environment: Mapping[str, str] | None = None) -> None:
        self._context = context
        self._more = dict(environment or {})
        self._lock = threading.Lock()
        self._free: list[WorkerSlot] = []
        self._held: set[WorkerSlot] = set()
        self._numbers = 0

    def acquire_slot(self) -> WorkerSlot:
        """Returns a free slot, which the caller returns with `release_slot` or `retire_slot`."""
        with self._lock:
            if self._free:
                slot = heapq.heappop(self._free)
            else:
                slot = WorkerSlot(self._numbers)
                self._numbers += 1
            self._held.add(slot)
            return slot

    def release_slot(self, slot: WorkerSlot) -> None:
        """Returns a slot to the pool after all its Python workers have exited."""
        with self._lock:
            self._remove_held_slot(slot)
            heapq.heappush(self._free, slot)

    def retire_slot(self, slot: WorkerSlot) -> None:
        """Removes a slot whose workers may still run. No later slot gets its name."""
        with self._lock:
            self._remove_held_slot(slot)
            heapq.heappush(self._free, WorkerSlot(slot.number, slot.generation + 1))

    def _remove_held_slot(self, slot: WorkerSlot) -> None:
        if slot not in self._held:
            raise ValueError(f"the slot {slot.name} belongs to no job")
        self._held.remove(slot)

    def map_in_arrow(
        self, frame: DataFrame, function: ArrowFunction, schema: StructType | str, slot: WorkerSlot
    ) -> DataFrame:
        """Returns ``frame.mapInArrow(function, schema)``, to run in the workers of ``slot``.

        PySpark copies the environment of the context during the call of `mapInArrow`. Therefore,
        the slot's variables are set only during this call.
        """
        with self.use_workers_of_slot(slot):
            return frame.mapInArrow(function, schema)

    def run_tasks(self, function: Callable[[], Any], tasks: int, slot: WorkerSlot) -> list[Any]:
        """Returns the results of ``function`` in the given number of tasks, which run in the workers
        of ``slot``.

        The tasks use an RDD, because the first DataFrame costs Java 5 s of CPU time for planning.
        """
        results = self._context.parallelize(range(tasks), tasks).mapPartitions(
            _PartitionFunction(function)
        )
        with self.use_workers_of_slot(slot):
            # Access `_jrdd` here: PySpark selects the pool of Python workers at this access, and
            # not when the result is collected.
            _ = results._jrdd
        return results.collect()

    @contextmanager
    def use_workers_of_slot(self, slot: WorkerSlot) -> Iterator[None]:
        """Makes functions that PySpark passes to Java run in the workers of ``slot``, within a
        ``with`` block. Other threads wait meanwhile.
        """
        environment = self._context.environment
        with self._lock:
            before = {name: environment[name] for name in self._more if name in environment}
            environment.update(self._more, **{SLOT_VARIABLE: slot.name})
            try:
                yield
            finally:
                for name in (*self._more, SLOT_VARIABLE):
                    del environment[name]
                environment.update(before)

    def set_spark_job_group(self, slot: WorkerSlot, group: str, description: str) -> None:
        """Sets the Spark job group and the scheduler pool of the calling thread. The scheduler
        pools of the slots share the cores.

        The thread must be an ``InheritableThread``.
        """
        # With interruptOnCancel, a cancellation interrupts Java's task threads, so that Spark kills
        # the Python workers of tasks that don't stop.
        self._context.setJobGroup(group, description, interruptOnCancel=True)
        # Each slot has a scheduler pool, so that concurrent jobs share the cores.
        self._context.setLocalProperty("spark.scheduler.pool", slot.name)

    def run_single_task(
        self, function: Callable[[], None], slot: WorkerSlot, group: str, description: str = ""
    ) -> str:
        """Calls ``function`` in a worker of ``slot``, as a Spark job of one task.

        The calling thread must be an ``InheritableThread``, because its job group and its scheduler
        pool are set. ``description`` is the job's name on Spark's pages.

        Returns:
            Spark's error in a few words; empty without an error.
        """
        try:
            self.set_spark_job_group(slot, group, description or group)
            self.run_tasks(function, 1, slot)
        except Exception as failure:
            return find_failure_reason(failure)
        return ""


class _PartitionFunction:
    """Adapter for Spark's Python worker: calls a function once per partition, and ignores the
    content of the partition.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def __call__(self, partition: Iterable[int]) -> Iterator[Any]:
        yield self._function()
