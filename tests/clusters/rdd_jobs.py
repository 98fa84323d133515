"""Handwritten PySpark RDD jobs of the cost measurements: ``rdd_jobs.py FILE [KEY=VALUE...]`` runs a
job for each input line.

The file is the module with the workloads. A line is a job's name and its size in pieces; the result
goes to standard output.
"""

from __future__ import annotations

import functools
import json
import sys

import cost_work
from pyspark import SparkConf, SparkContext

_PARTS = 8


def group(job: cost_work.Grouping, context: SparkContext, pieces: int) -> tuple[int, int]:
    """Pairs by their keys."""
    made = context.parallelize(range(pieces), _PARTS).flatMap(job.make)
    return made.groupByKey(_PARTS).map(job.tell).reduce(cost_work.both)


def join(context: SparkContext, pieces: int) -> tuple[int, int]:
    """Joins two collections of values by key."""
    one, other = (
        context.parallelize(half, _PARTS).flatMap(cost_work.values)
        for half in (range(0, pieces, 2), range(1, pieces, 2))
    )
    return one.cogroup(other, _PARTS).map(cost_work.sides).reduce(cost_work.both)


def deal(context: SparkContext, pieces: int) -> tuple[int, int]:
    """Redistributes values."""
    made = context.parallelize(range(pieces), _PARTS).flatMap(cost_work.values)
    return made.repartition(_PARTS).map(cost_work.as_one).reduce(cost_work.both)


def sums(context: SparkContext, pieces: int) -> tuple[int, int]:
    """Numbers, added up by their keys."""
    made = context.parallelize(range(pieces), _PARTS).flatMap(cost_work.small)
    totals = made.reduceByKey(lambda one, other: one + other, _PARTS)
    return totals.map(lambda found: (1, found[1])).reduce(cost_work.both)


def words(context: SparkContext, pieces: int) -> tuple[int, int]:
    """Words, counted."""
    made = context.parallelize(range(pieces), _PARTS).flatMap(cost_work.lines)
    each = made.flatMap(str.split).map(lambda word: (word, 1))
    counts = each.reduceByKey(lambda one, other: one + other, _PARTS)
    return counts.map(lambda found: (1, found[1])).reduce(cost_work.both)


_JOBS = {
    **{name: functools.partial(group, job) for name, job in cost_work.GROUPINGS.items()},
    "join": join,
    "deal": deal,
    "sums": sums,
    "words": words,
}


def main(arguments: list[str]) -> None:
    """Runs jobs until the end of the input."""
    file, *properties = arguments
    conf = SparkConf().setAll([tuple(each.split("=", 1)) for each in properties])
    with SparkContext(conf=conf) as context:
        context.addPyFile(file)
        for line in sys.stdin:
            name, pieces = line.split()
            print(json.dumps(_JOBS[name](context, int(pieces))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
