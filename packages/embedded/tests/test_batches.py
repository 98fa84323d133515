"""Tests of batched DoFns in the embedded harness."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to
from batched import NumberBatchDoFn
from mini_runner import run


class Batch(NumberBatchDoFn):
    """A DoFn that takes batches of elements, like Beam's batched DoFns."""

    def process_batch(self, batch: list[int]) -> Iterable[list[int]]:
        yield [number + len(batch) * 0 + 1 for number in batch]


def test_batched_dofn_gets_batches() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create(range(100)) | beam.Reshuffle().with_output_types(int)
    assert_that(numbers | beam.ParDo(Batch()), equal_to(list(range(1, 101))))
    run(pipeline)
