"""Shuffle of byte blocks between two Spark stages: an RDD whose blocks Spark sends to the task of
their shard.

PySpark's ``partitionBy`` would pickle the data, in batches of a thousand. This module uses internal
functions of PySpark that don't pickle, and that all supported versions have. ADR 0018 explains why
it doesn't use a DataFrame.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from pyspark import RDD, SparkContext  # noqa: TID251 - see ADR 0018
from pyspark.serializers import NoOpSerializer

Exchanged: TypeAlias = RDD[bytes]
"""Shuffle blocks in transit, with one partition for each receiving task."""
Parcels = Iterable[bytes]
Task = Callable[[int, Parcels], Iterator[tuple[int, bytes]]]
"""Type of a task: a function that gets the task's index and input blocks, and yields pairs of
target shard and output block.
"""

_SHARD = struct.Struct("!q")


def create_empty_inputs(context: SparkContext, tasks: int) -> Exchanged:
    """Returns an empty input for each task of a first stage."""
    return context.parallelize(range(tasks), tasks).mapPartitions(_empty_iterator)


class SparkShuffles:
    """Shuffles of one Spark job, with a method that removes their files after the job. Not
    thread-safe.

    Without this method, Spark removes the files when Java's garbage collector finds the unused
    RDDs. In an idle driver, this takes half an hour. Meanwhile, the files occupy the executors'
    disks, and dynamic allocation can't release these executors.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._shuffles: list[int] = []

    def shuffle_by_shard(self, parcels: Exchanged, task: Task, shards: int, name: str) -> Exchanged:
        """Returns the output of tasks, arranged as the input of the next tasks.

        The property ``callSite.short`` of this thread sets Spark's name for these tasks.

        Args:
            parcels: the input.
            task: the function to run on each partition of the input.
            shards: the number of next tasks.
            name: the name of the output on Spark's pages.
        """
        jvm = self._context._jvm
        assert jvm is not None
        sent = parcels.mapPartitionsWithIndex(_ShardSender(task))
        sent._bypass_serializer = True
        pairs = jvm.PairwiseRDD(sent._jrdd.rdd())
        pairs.setName(name)
        partitioner = jvm.PythonPartitioner(shards, 0)
        shuffled = pairs.asJavaPairRDD().partitionBy(partitioner)
        self._shuffles.append(shuffled.rdd().dependencies().head().shuffleId())
        return RDD(jvm.PythonRDD.valueOfPair(shuffled), self._context, NoOpSerializer())

    def remove_files(self) -> None:
        """Requests the removal of all files on all executors, and doesn't wait for the removal."""
        cleaner = self._context._jsc.sc().cleaner()
        if (
            cleaner.isDefined()
        ):  # otherwise the user has configured Spark to remove nothing before its end
            for shuffle in self._shuffles:
                cleaner.get().doCleanupShuffle(shuffle, False)
        self._shuffles.clear()


def gather_results(parcels: Exchanged, task: Callable[[Parcels], Iterator[bytes]]) -> Exchanged:
    """Returns the results of a last task for each partition of the blocks, for the caller to collect."""
    last = parcels.mapPartitions(task)
    last._bypass_serializer = True
    # Access `_jrdd` now: PySpark selects the pool of Python workers at this access, by the current
    # settings, and not when the caller collects the result.
    _ = last._jrdd
    return last


class _ShardSender:
    """Adapter for Spark's Python worker. The worker expects an iterator that yields a shard and a
    block in turn.
    """

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, number: int, parcels: Parcels) -> Iterator[bytes]:
        for shard, parcel in self._task(number, parcels):
            yield _SHARD.pack(shard)
            yield parcel


def _empty_iterator(numbers: Iterable[int]) -> Iterator[bytes]:
    return iter(())
