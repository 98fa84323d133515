from __future__ import annotations

import apache_beam as beam
import pytest

from beam_spark_executor.client.pipeline_checks import check_producers


def test_side_input_of_another_pipeline_is_refused_by_name() -> None:
    other = beam.Pipeline() | "Other" >> beam.Create([1])
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([1])
    numbers | "Add" >> beam.Map(lambda x, more: x, beam.pvalue.AsList(other))
    with pytest.raises(ValueError, match="^the transform 'Add' reads a PCollection of another"):
        check_producers(pipeline.to_runner_api())


def test_pipeline_with_side_input_is_accepted() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([1])
    numbers | beam.Map(lambda x, more: x, beam.pvalue.AsList(numbers)) | beam.GroupBy(str)
    assert check_producers(pipeline.to_runner_api()) is None
