"""Tests of the parts of `WriteToSpark` that depend on its input."""

from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.transforms.window import FixedWindows

from beam_spark_io import WriteToSpark


@pytest.mark.parametrize("windowed", [False, True])
def test_spark_write_puts_rows_into_global_window_if_necessary(windowed: bool) -> None:
    pipeline = beam.Pipeline()
    rows = pipeline | beam.Create([beam.Row(n=1)])
    if windowed:
        rows = rows | beam.WindowInto(FixedWindows(10))
    _ = rows | "Write" >> WriteToSpark("parquet", "out")
    names = {each.unique_name for each in pipeline.to_runner_api().components.transforms.values()}
    assert ("Write/Global" in names) is windowed
    assert "Write/Batches" in names
