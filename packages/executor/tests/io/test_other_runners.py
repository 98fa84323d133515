"""Runners that know nothing of Spark's tables refuse them, in a sentence."""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from beam_spark_executor.io import ReadFromSpark

COLUMNS = pa.schema([("id", pa.int64())])


def test_another_runner_says_which_one_reads_it() -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    pipeline | "Events" >> ReadFromSpark("parquet", path="events", schema=COLUMNS)
    with pytest.raises(
        RuntimeError, match="'Events/Spark'.*run the pipeline with .*BeamSparkRunner"
    ):
        pipeline.run()
