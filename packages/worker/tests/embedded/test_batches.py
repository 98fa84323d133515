"""Batched DoFns in the embedded harness."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to
from mini_runner import run


class Batch(beam.DoFn):
    """Asks for batches of elements, as Beam's batched DoFns do."""

    def process_batch(self, batch: list[int]) -> Iterable[list[int]]:
        yield [number + len(batch) * 0 + 1 for number in batch]

    def get_input_batch_type(self, input_element_type: Any) -> Any:
        return list[int]

    def get_output_batch_type(self, input_element_type: Any) -> Any:
        return list[int]

    def infer_output_type(self, input_element_type: Any) -> Any:
        return int


def test_batched_dofn() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create(range(100)) | beam.Reshuffle().with_output_types(int)
    assert_that(numbers | beam.ParDo(Batch()), equal_to(list(range(1, 101))))
    run(pipeline)
