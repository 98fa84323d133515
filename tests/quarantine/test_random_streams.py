"""Tests that random streams with failing elements have the results of the streams without these elements."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_model.jobs import JobState
from jobs import Pipelines
from poisoned_streams import PoisonedStream


def test_random_stream_with_failing_elements_has_the_output_without_these_elements(
    streams: Pipelines, seed: int, tmp_path: Path
) -> None:
    stream = PoisonedStream.from_seed(seed)
    pipeline = streams.new(f"--beam_spark_quarantine={tmp_path}", *stream.flags())
    assert_that(stream.build(pipeline), equal_to(stream.expect()))
    job = streams.job(pipeline)
    assert job.wait() is JobState.DONE, (stream, [message.text for message in job.messages()][-1])
    rows = [row for file in tmp_path.rglob("*.parquet") for row in pq.read_table(file).to_pylist()]
    errors = {row["error"].partition("Poison: ")[2] for row in rows}
    assert errors == stream.expect_errors(), stream
