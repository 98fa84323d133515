"""Tests of groups that exceed the available memory.

Gigabytes of data take minutes, so a developer runs the session by hand.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from jobs import Pipelines

pytestmark = pytest.mark.timeout(1800)
KEYS = 100_000
VALUE = 1024
IN_MEGABYTE = 1024


def spread(number: int) -> Iterator[tuple[bytes, bytes]]:
    """Yields a megabyte in values of 1 KiB, for many keys."""
    noise = random.Random(number).randbytes(VALUE)
    for place in range(IN_MEGABYTE):
        key = (number * IN_MEGABYTE + place) * 7919 % KEYS
        yield b"%07d" % key, noise[place:] + noise[:place]


def hot(number: int) -> Iterator[tuple[str, bytes]]:
    """Yields a megabyte in values of 1 KiB, for one key."""
    for _ in range(IN_MEGABYTE):
        yield "hot", b"x" * VALUE


def count(group: tuple[bytes, Iterable[bytes]]) -> tuple[int, int]:
    """Returns one for the key, and the count of its values."""
    return 1, sum(1 for _ in group[1])


def read_twice(group: tuple[str, Iterable[bytes]]) -> tuple[str, int, int]:
    """Returns the bytes of a key's values, then their count."""
    key, values = group
    return key, sum(len(value) for value in values), sum(1 for _ in values)


class SumPairs(beam.CombineFn):
    """Adds pairs up."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add_input(self, total: tuple[int, int], pair: tuple[int, int]) -> tuple[int, int]:
        return total[0] + pair[0], total[1] + pair[1]

    def merge_accumulators(self, totals: Iterable[tuple[int, int]]) -> tuple[int, int]:
        keys, values = zip(*totals, strict=True)
        return sum(keys), sum(values)

    def extract_output(self, total: tuple[int, int]) -> tuple[int, int]:
        return total


def megabytes(pipeline: beam.Pipeline, size: int) -> beam.PCollection[int]:
    """Returns a redistributed PCollection with the numbers of the megabytes."""
    return pipeline | beam.Create(range(size)) | beam.Reshuffle()


@pytest.mark.parametrize("pipelines", ["embedded"], indirect=True)
def test_grouping_of_more_groups_than_memory_gives_exact_results(
    pipelines: Pipelines, part: float
) -> None:
    size = int(3 * 1024 * part)
    with pipelines.new() as p:
        made = megabytes(p, size) | beam.FlatMap(spread).with_output_types(tuple[bytes, bytes])
        counts = made | beam.GroupByKey() | beam.Map(count) | beam.CombineGlobally(SumPairs())
        rows = size * IN_MEGABYTE
        assert_that(counts, equal_to([(min(rows, KEYS), rows)]))


def test_grouping_of_one_key_with_more_values_than_memory_gives_exact_results(
    pipelines: Pipelines, part: float
) -> None:
    size = int(1024 * part)
    with pipelines.new() as p:
        made = megabytes(p, size) | beam.FlatMap(hot).with_output_types(tuple[str, bytes])
        read = made | beam.GroupByKey() | beam.Map(read_twice)
        assert_that(read, equal_to([("hot", size * IN_MEGABYTE * VALUE, size * IN_MEGABYTE)]))
