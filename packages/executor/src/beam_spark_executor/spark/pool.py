"""Pools of Python workers by slot, so that two jobs never meet in one Python process.

Spark keeps a pool of Python workers, forked from a daemon of its own, for every distinct set of
environment variables. Each running job holds one *slot*, whose name is such a variable; so jobs that
run at the same time have different daemons, and jobs that follow each other share a warm daemon but
no worker, because every worker process ends with its job.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
from beam_spark_io.spark.reasons import reason_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

SLOT_VARIABLE = "BEAM_SPARK_SLOT"
"""Internal: number of the job slot whose Python workers a Spark task uses."""

ArrowFunction = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


@attrs.frozen(order=True)
class Slot:
    """A pool of Python workers: the ``generation``-th one at place ``number``."""

    number: int
    generation: int = 0

    @property
    def name(self) -> str:
        """The value of `SLOT_VARIABLE` in the workers; also fit for ``spark.scheduler.pool``."""
        return f"slot-{self.number}.{self.generation}"


class WorkerPools:
    """Hands out slots, lowest free number first; all methods may be called from any thread.

    So jobs that follow each other are all in slot 0, whose daemon is warm, and there are never more
    daemons than there were jobs at once, plus one for every slot retired.

    Args:
        context: runs them.
        environment: more variables for the environment of all of them.
    """

    def __init__(self, context: SparkContext, environment: Mapping[str, str] | None = None) -> None:
        self._context = context
        self._more = dict(environment or {})
        self._lock = threading.Lock()
        self._free: list[Slot] = []
        self._held: set[Slot] = set()
        self._numbers = 0

    def acquire(self) -> Slot:
        """A slot that no other job has, to be given back by `release` or `retire`."""
        with self._lock:
            if self._free:
                slot = heapq.heappop(self._free)
            else:
                slot = Slot(self._numbers)
                self._numbers += 1
            self._held.add(slot)
            return slot

    def release(self, slot: Slot) -> None:
        """Gives a slot back whose Python workers have all exited."""
        with self._lock:
            self._give_up(slot)
            heapq.heappush(self._free, slot)

    def retire(self, slot: Slot) -> None:
        """Gives up a slot whose workers may still be there; its name is never used again."""
        with self._lock:
            self._give_up(slot)
            heapq.heappush(self._free, Slot(slot.number, slot.generation + 1))

    def _give_up(self, slot: Slot) -> None:
        if slot not in self._held:
            raise ValueError(f"{slot.name} is not held by any job")
        self._held.remove(slot)

    def map_in_arrow(
        self, frame: DataFrame, function: ArrowFunction, schema: StructType | str, slot: Slot
    ) -> DataFrame:
        """``frame.mapInArrow(function, schema)``, to be run by the workers of ``slot``.

        PySpark copies the context's environment when it makes the function's Java object, which
        happens inside `mapInArrow`; so the variables are set for that moment only.
        """
        with self.in_slot(slot):
            return frame.mapInArrow(function, schema)

    def call(self, function: Callable[[], Any], tasks: int, slot: Slot) -> list[Any]:
        """What ``function`` returns in each of as many tasks, run by the workers of ``slot``.

        An RDD's, since a DataFrame's first one costs Java five CPU seconds, for planning what needs no plan.
        """
        results = self._context.parallelize(range(tasks), tasks).mapPartitions(_Call(function))
        with self.in_slot(slot):
            # PySpark decides now, and not when it is collected, in which workers it runs.
            _ = results._jrdd
        return results.collect()

    @contextmanager
    def in_slot(self, slot: Slot) -> Iterator[None]:
        """What PySpark gives to Java in it is run by the workers of ``slot``; for a moment only."""
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

    def begin_job(self, slot: Slot, group: str, description: str) -> None:
        """Has what the calling thread runs in Spark be of a group, and share the cores with other slots.

        The thread is to be one of its own (``InheritableThread``).
        """
        # interruptOnCancel also interrupts the JVM's task threads, which makes Spark kill the
        # Python workers of tasks that do not stop by themselves.
        self._context.setJobGroup(group, description, interruptOnCancel=True)
        # A scheduler pool for each slot: jobs that run at the same time share the cores.
        self._context.setLocalProperty("spark.scheduler.pool", slot.name)

    def call_once(
        self, function: Callable[[], None], slot: Slot, group: str, description: str = ""
    ) -> str:
        """Calls ``function`` in a worker of ``slot``, as a Spark job of one task.

        The calling thread is to be one of its own (``InheritableThread``): its job group and its
        scheduler pool are set. ``description`` is what Spark's own pages call the job.

        Returns:
            Spark's error in a few words; empty if there was none.
        """
        try:
            self.begin_job(slot, group, description or group)
            self.call(function, 1, slot)
        except Exception as failure:
            return reason_of(failure)
        return ""


class _Call:
    """A function as Spark's Python worker calls it: with what is in a partition, which is nothing to it."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def __call__(self, partition: Iterable[int]) -> Iterator[Any]:
        yield self._function()
