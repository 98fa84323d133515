"""Exchange of shuffle blocks between two Spark stages: an RDD of bytes that Spark shuffles by shard.

PySpark's ``partitionBy`` pickles its data, in batches of a thousand. This module does the same one
level below, with the API that all supported versions share. ADR 0018 says why it isn't a DataFrame.
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
"""A function from a task's number and its input blocks to output blocks, each with the shard that receives it."""

_SHARD = struct.Struct("!q")


def empty_inputs(context: SparkContext, tasks: int) -> Exchanged:
    """Returns an empty input for each task of a first stage."""
    return context.parallelize(range(tasks), tasks).mapPartitions(_empty_iterator)


class Exchanges:
    """The shuffles of one Spark job, whose files are removed when they are no longer needed. For one
    thread.

    Spark itself removes them after Java's garbage collector has found the unused RDDs. In an idle
    driver, that takes half an hour. Meanwhile the disks of the executors stay full, and Spark
    releases no executor that has some of the files.

    Args:
        context: the Spark context.
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
        """Requests the removal of all files on all executors; does not wait for it."""
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
    # Access `_jrdd` now, because PySpark chooses its Python workers at this access with the current
    # settings, and not when the caller collects the result.
    _ = last._jrdd
    return last


class _ShardSender:
    """A task in the form that Spark's Python worker calls; it yields a shard, then a block, and so on."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, number: int, parcels: Parcels) -> Iterator[bytes]:
        for shard, parcel in self._task(number, parcels):
            yield _SHARD.pack(shard)
            yield parcel


def _empty_iterator(numbers: Iterable[int]) -> Iterator[bytes]:
    return iter(())
