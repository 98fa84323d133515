"""Tests that a lifted combine's table has the output of Beam's table, and a limit in bytes, not only in keys."""

from __future__ import annotations

import collections
import gc
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import apache_beam as beam
import pytest
from apache_beam import combiners
from apache_beam.runners.worker import operations
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import trigger, window
from mini_runner import EmptyArtifacts, Logs, MiniRunner, job, run
from noting import SEEN, Note

from beam_runner_embedded import combine_tables, run_operations
from beam_runner_embedded.combine_tables import TABLE_BYTES, _release_freed_memory
from beam_runner_embedded.harness import EmbeddedHarness

MEGABYTE = 1 << 20
VALUES = 96
KEYS = 3


def megabytes(number: int) -> Iterator[tuple[str, bytes]]:
    """Yields distinct values of one megabyte for several keys."""
    for place in range(VALUES):
        yield f"key {place % KEYS}", bytes([number, place]) * (MEGABYTE // 2)


def accumulators(windowing: beam.PTransform, table_bytes: int) -> int:
    """Returns the number of accumulators that a list combine emits before the shuffle."""
    pipeline = beam.Pipeline()
    pairs = pipeline | beam.Create([1]) | windowing | beam.FlatMap(megabytes)
    lists = pairs | beam.CombinePerKey(combiners.ToListCombineFn())
    sizes = lists | beam.MapTuple(lambda key, values: (key, len(values), len(set(values))))
    assert_that(
        sizes, equal_to([(f"key {n}", VALUES // KEYS, VALUES // KEYS) for n in range(KEYS)])
    )
    runner = MiniRunner(pipeline)
    runner.harness.close()
    runner.harness = EmbeddedHarness(job(), EmptyArtifacts(), Logs(), table_bytes)
    # Memory freed by earlier tests could be reused, and the process wouldn't grow.
    gc.collect()
    _release_freed_memory()
    runner.run()
    for planned, result in runner.results:
        if b"precombine" in planned.spec.descriptor:
            (buffer,) = planned.output_buffers.values()
            assert result is not None
            return sum(len(chunk.key_ends) for chunk in runner.buffers[buffer])
    raise AssertionError("the combine is not lifted")


@pytest.mark.parametrize(
    "windowing",
    [beam.WindowInto(window.GlobalWindows()), beam.WindowInto(window.FixedWindows(60))],
    ids=["one window", "windows"],
)
def test_combine_table_above_size_limit_is_flushed(windowing: beam.PTransform) -> None:
    many = accumulators(windowing, 8 * MEGABYTE)
    assert KEYS < many <= VALUES
    assert accumulators(windowing, TABLE_BYTES) == KEYS


def test_combine_table_above_key_limit_is_flushed() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([None]) | beam.FlatMap(lambda _: list(range(1000)))
    pairs = numbers | beam.Map(lambda n: (n % 500, n))
    lists = pairs | beam.CombinePerKey(combiners.ToListCombineFn())
    sums = lists | beam.MapTuple(lambda key, values: (key, sum(values)))
    assert_that(sums, equal_to([(n, 2 * n + 500) for n in range(500)]))
    with mock.patch.object(combine_tables, "_MOST_KEYS", 300):
        runner = run(pipeline)
    most = max(
        sum(len(chunk.key_ends) for chunk in runner.buffers[buffer])
        for planned, _ in runner.results
        if b"precombine" in planned.spec.descriptor
        for buffer in planned.output_buffers.values()
        if buffer.startswith(b"group:")
    )
    assert 500 < most <= 1000


BEAMS = operations.PGBKCVOperation


def noted(windowing: beam.PTransform, fn: Any) -> collections.Counter[str]:
    SEEN.clear()
    pipeline = beam.Pipeline()
    times = pipeline | beam.Create([3, 14, 3, 27])
    stamped = times | beam.FlatMap(
        lambda time: [window.TimestampedValue((n % 7, n), time + n % 3) for n in range(100)]
    )
    alike = times | "alike" >> beam.FlatMap(
        lambda time: [window.TimestampedValue((n % 7, n), time) for n in range(100)]
    )
    pairs = (stamped, alike) | beam.Flatten() | windowing
    _ = pairs | beam.CombinePerKey(fn) | beam.ParDo(Note())
    MiniRunner(pipeline).run()
    return collections.Counter(SEEN)


@pytest.mark.parametrize("fn", [sum, combiners.CountCombineFn(), combiners.MeanCombineFn()])
@pytest.mark.parametrize(
    "windowing",
    [
        beam.WindowInto(window.GlobalWindows()),
        beam.WindowInto(
            window.GlobalWindows(),
            trigger=trigger.AfterWatermark(),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
            timestamp_combiner=window.TimestampCombiner.OUTPUT_AT_LATEST,
        ),
        beam.WindowInto(window.SlidingWindows(10, 5)),
        beam.WindowInto(
            window.FixedWindows(10),
            timestamp_combiner=window.TimestampCombiner.OUTPUT_AT_EARLIEST,
        ),
    ],
    ids=["one window", "latest time", "windows", "earliest times"],
)
def test_combine_table_output_equals_output_of_beam(windowing: beam.PTransform, fn: Any) -> None:
    ours = noted(windowing, fn)
    with mock.patch.object(
        run_operations,
        "MemoryBoundedCombine",
        lambda *arguments, most_bytes: BEAMS(*arguments),
    ):
        assert noted(windowing, fn) == ours
    assert len(ours) >= 7


class Joining(beam.CombineFn):
    """A combine function that joins many lists at once."""

    def create_accumulator(self) -> tuple[int, ...]:
        return ()

    def add_input(self, accumulator: tuple[int, ...], element: list[int]) -> tuple[int, ...]:
        return (*accumulator, *element)

    def add_inputs(
        self, accumulator: tuple[int, ...], elements: Iterable[list[int]], *_: Any, **__: Any
    ) -> tuple[int, ...]:
        return sum(map(tuple, elements), accumulator)

    def merge_accumulators(self, accumulators: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        return sum(accumulators, ())

    def extract_output(self, accumulator: tuple[int, ...]) -> list[int]:
        return sorted(accumulator)


def test_value_mutated_after_output_is_combined_immediately() -> None:
    def one_list(_: None) -> Iterator[tuple[str, list[int]]]:
        changing = [0]
        for changing[0] in range(50):
            yield "key", changing

    pipeline = beam.Pipeline()
    joined = pipeline | beam.Create([None]) | beam.FlatMap(one_list) | beam.CombinePerKey(Joining())
    assert_that(joined, equal_to([("key", list(range(50)))]))
    run(pipeline)
