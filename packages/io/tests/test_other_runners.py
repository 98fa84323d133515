"""Tests that other runners refuse Spark's tables in one sentence."""

from __future__ import annotations

from collections.abc import Callable

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.transforms.ptransform import PTransform

from beam_spark_io import ReadFromSpark, ReadStreamFromSpark

COLUMNS = pa.schema([("id", pa.int64())])


@pytest.mark.parametrize("read", [ReadFromSpark, ReadStreamFromSpark])
def test_read_by_another_runner_names_supported_runner(read: Callable[..., PTransform]) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    pipeline | "Events" >> read("parquet", path="events", schema=COLUMNS)
    with pytest.raises(
        RuntimeError, match="'Events/Spark'.*run the pipeline with .*BeamSparkRunner"
    ):
        pipeline.run()
