"""Tests of side inputs that exceed the available memory."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from jobs import Pipelines

pytestmark = pytest.mark.timeout(3600)
VALUE = 1024
IN_MEGABYTE = 1024
LOOKUPS = 20_000


def entries(number: int) -> Iterator[tuple[int, bytes]]:
    """Yields a megabyte in values of 1 KiB, each with a separate key."""
    for key in range(number * IN_MEGABYTE, (number + 1) * IN_MEGABYTE):
        yield key, key.to_bytes(8) * (VALUE // 8)


def look_up(key: int, side: Mapping[int, Iterable[bytes]]) -> int:
    """Returns the count of a key's correct values."""
    return sum(value == key.to_bytes(8) * (VALUE // 8) for value in side[key])


def add_up(number: int, side: Iterable[tuple[int, bytes]]) -> tuple[int, int]:
    """Returns the number of bytes, read twice."""
    return tuple(sum(len(value) for _, value in side) for _ in range(2))


def side_input(p: beam.Pipeline, size: int) -> beam.PCollection:
    """Returns a side input of this number of megabytes."""
    numbers = p | "side" >> beam.Create(range(size)) | beam.Reshuffle()
    return numbers | beam.FlatMap(entries).with_output_types(tuple[int, bytes])


def test_side_input_lookup_in_more_data_than_memory_gives_exact_results(
    pipelines: Pipelines, part: float
) -> None:
    size = int(4 * 1024 * part)
    keys = random.Random(1).choices(range(size * IN_MEGABYTE), k=LOOKUPS)
    with pipelines.new() as p:
        main = p | "main" >> beam.Create(keys) | "deal" >> beam.Reshuffle()
        found = main | beam.Map(look_up, beam.pvalue.AsMultiMap(side_input(p, size)))
        assert_that(found | beam.CombineGlobally(sum), equal_to([LOOKUPS]))


def test_side_input_scan_of_more_data_than_memory_gives_exact_results(
    pipelines: Pipelines, part: float
) -> None:
    size = int(4 * 1024 * part)
    with pipelines.new() as p:
        main = p | "main" >> beam.Create([1])
        read = main | beam.Map(add_up, beam.pvalue.AsIter(side_input(p, size)))
        assert_that(read, equal_to([(size * IN_MEGABYTE * VALUE,) * 2]))
