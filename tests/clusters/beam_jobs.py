"""Pipelines whose costs are compared with handwritten jobs."""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
import cost_work
from apache_beam.metrics import Metrics
from beam_runner_model.jobs import JobState
from jobs import Pipelines

LEAST = 20
"""Pieces of a job at least, which is enough to warm up."""


class Tell(beam.DoFn):
    """Adds pairs up, in counters."""

    def process(self, pair: tuple[int, int]) -> None:
        Metrics.counter("cost", "first").inc(pair[0])
        Metrics.counter("cost", "second").inc(pair[1])


class Both(beam.CombineFn):
    """CombineFn that sums pairs."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add_input(self, accumulator: tuple[int, int], pair: tuple[int, int]) -> tuple[int, int]:
        return cost_work.both(accumulator, pair)

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        return functools.reduce(cost_work.both, accumulators)

    def extract_output(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator


class TakeTime(beam.DoFn):
    """DoFn that sleeps for each element, and counts the elements by the host that processes them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def process(self, _: int) -> None:
        time.sleep(self._seconds)
        Metrics.counter("hosts", socket.gethostname()).inc()


def _dealt(pipeline: beam.Pipeline, pieces: Iterable[int], name: str) -> beam.PCollection:
    return pipeline | f"pieces{name}" >> beam.Create(pieces) | f"deal{name}" >> beam.Reshuffle()


def _pairs(
    pipeline: beam.Pipeline,
    pieces: Iterable[int],
    make: Callable[[int], Iterable[tuple[int, Any]]],
    kind: type,
    name: str = "",
) -> beam.PCollection:
    made = f"pairs{name}" >> beam.FlatMap(make)
    return _dealt(pipeline, pieces, name) | made.with_output_types(tuple[int, kind])


def values(pipeline: beam.Pipeline, pieces: Iterable[int], name: str = "") -> beam.PCollection:
    """Returns a transform that makes values with keys on the workers."""
    return _pairs(pipeline, pieces, cost_work.values, bytes, name)


def group(job: cost_work.Grouping, pipeline: beam.Pipeline, pieces: int) -> beam.PCollection:
    """Pairs by their keys."""
    made = _pairs(pipeline, range(pieces), job.make, job.kind)
    return made | beam.GroupByKey() | beam.Map(job.tell)


def join(pipeline: beam.Pipeline, pieces: int) -> beam.PCollection:
    """Joins two collections of values by key."""
    halves = [values(pipeline, range(first, pieces, 2), f" {first}") for first in (0, 1)]
    return tuple(halves) | beam.CoGroupByKey() | beam.Map(cost_work.sides)


def deal(pipeline: beam.Pipeline, pieces: int) -> beam.PCollection:
    """Redistributes values."""
    dealt = values(pipeline, range(pieces)) | "values dealt" >> beam.Reshuffle()
    ones = dealt | beam.Map(cost_work.as_one).with_output_types(tuple[int, int])
    return ones | beam.CombineGlobally(Both()).without_defaults()


def sums(pipeline: beam.Pipeline, pieces: int) -> beam.PCollection:
    """Numbers, added up by their keys."""
    numbers = _pairs(pipeline, range(pieces), cost_work.small, int)
    totals = numbers | beam.CombinePerKey(sum)
    return totals | beam.Map(lambda found: (1, found[1]))


def words(pipeline: beam.Pipeline, pieces: int) -> beam.PCollection:
    """Words, counted."""
    split = beam.FlatMap(str.split).with_output_types(str)
    made = _dealt(pipeline, range(pieces), "") | beam.FlatMap(cost_work.lines) | split
    return made | beam.combiners.Count.PerElement() | beam.Map(lambda found: (1, found[1]))


JOBS = {
    **{name: functools.partial(group, job) for name, job in cost_work.GROUPINGS.items()},
    "join": join,
    "deal": deal,
    "sums": sums,
    "words": words,
}
EXPECTED = {
    **{name: job.expected for name, job in cost_work.GROUPINGS.items()},
    **dict.fromkeys(("join", "deal"), cost_work.grouped),
    "sums": cost_work.added,
    "words": cost_work.counted,
}
"""Expected result for a number of pieces."""
PARTS = {"group_small": 2, "sums": 16, "words": 8}
"""Divisor of the number of pieces, for jobs whose pieces take longer, or are larger, than a thousand values."""


def pieces_of(gigabytes: float, part: int = 1) -> int:
    """Returns the number of chunks into which a number of bytes of values is split, reduced by the
    job's divisor.
    """
    return max(LEAST, int(gigabytes * 1e9 / cost_work.VALUE / cost_work.PIECE) // part)


def run(
    pipelines: Pipelines, build: Callable[[beam.Pipeline, int], beam.PCollection], pieces: int
) -> tuple[int, int]:
    """Runs a job; returns the sum of its pairs."""
    pipeline = pipelines.new()
    _ = build(pipeline, pieces) | beam.ParDo(Tell())
    job = pipelines.job(pipeline)
    assert job.wait(1500) is JobState.DONE, [m.text for m in job.messages()][-3:]
    return job.counter("first"), job.counter("second")
