"""Parcels from all tasks of one Spark stage to those of the next: an RDD of bytes, which Spark shuffles by their shards.

PySpark's own ``partitionBy`` pickles what it shuffles, and gathers a thousand at a time of it; so this does the same one
level below, with what both have in common in all versions. See ADR 0018 for why it is no DataFrame.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from pyspark import RDD, SparkContext  # noqa: TID251 - see ADR 0018
from pyspark.serializers import NoOpSerializer

Exchanged: TypeAlias = RDD[bytes]
"""Parcels on their way, in as many partitions as there are tasks that get them."""
Parcels = Iterable[bytes]
Task = Callable[[int, Parcels], Iterator[tuple[int, bytes]]]
"""From its number and the parcels that are for it to parcels with the shard that each is for."""

_SHARD = struct.Struct("!q")


def first(context: SparkContext, tasks: int) -> Exchanged:
    """Nothing, for each of the tasks of a first stage."""
    return context.parallelize(range(tasks), tasks).mapPartitions(_nothing)


class Exchanges:
    """The shuffles of one Spark job, whose files go when nobody needs them any more. For one thread.

    Spark itself removes them once Java's garbage collector has found that the RDDs are gone: in a driver that has nothing else
    to do half an hour later, with the disks of all executors full meanwhile, and none given back that has some of them.

    Args:
        context: Spark's.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._shuffles: list[int] = []

    def exchange(self, parcels: Exchanged, task: Task, shards: int, name: str) -> Exchanged:
        """What these tasks send, as the next ones get it.

        What Spark calls these tasks is up to the property ``callSite.short`` of this thread.

        Args:
            parcels: the input.
            task: to be run on each partition of it.
            shards: how many tasks come next.
            name: what Spark's pages call what the tasks make.
        """
        jvm = self._context._jvm
        assert jvm is not None
        sent = parcels.mapPartitionsWithIndex(_Sending(task))
        sent._bypass_serializer = True
        pairs = jvm.PairwiseRDD(sent._jrdd.rdd())
        pairs.setName(name)
        partitioner = jvm.PythonPartitioner(shards, 0)
        shuffled = pairs.asJavaPairRDD().partitionBy(partitioner)
        self._shuffles.append(shuffled.rdd().dependencies().head().shuffleId())
        return RDD(jvm.PythonRDD.valueOfPair(shuffled), self._context, NoOpSerializer())

    def remove(self) -> None:
        """Has the files of all of them removed, on all executors; does not wait for it."""
        cleaner = self._context._jsc.sc().cleaner()
        if cleaner.isDefined():  # else the user wants Spark to remove nothing before its end
            for shuffle in self._shuffles:
                cleaner.get().doCleanupShuffle(shuffle, False)
        self._shuffles.clear()


def gathered(parcels: Exchanged, task: Callable[[Parcels], Iterator[bytes]]) -> Exchanged:
    """What a last task, one for each partition, makes of parcels; to be collected."""
    last = parcels.mapPartitions(task)
    last._bypass_serializer = True
    # PySpark decides now, and not when it is collected, in which workers it runs.
    _ = last._jrdd
    return last


class _Sending:
    """A task as Spark's Python worker calls it: gives the shard, then the parcel, and so on."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, number: int, parcels: Parcels) -> Iterator[bytes]:
        for shard, parcel in self._task(number, parcels):
            yield _SHARD.pack(shard)
            yield parcel


def _nothing(numbers: Iterable[int]) -> Iterator[bytes]:
    return iter(())
