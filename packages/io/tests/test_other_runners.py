"""Tests that other runners refuse Spark's tables and sinks that write exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.direct.direct_runner import DirectRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms.ptransform import PTransform

from beam_spark_io import ReadFromSpark, ReadStreamFromSpark, WriteFilesExactlyOnce

COLUMNS = pa.schema([("id", pa.int64())])
STABLE_INPUT = common_urns.requirements.REQUIRES_STABLE_INPUT.urn


@pytest.mark.parametrize("read", [ReadFromSpark, ReadStreamFromSpark])
def test_spark_read_on_another_runner_fails_and_names_this_runner(
    read: Callable[..., PTransform],
) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    pipeline | "Events" >> read("parquet", path="events", schema=COLUMNS)
    with pytest.raises(
        RuntimeError, match="'Events/Spark'.*run the pipeline with .*BeamSparkRunner"
    ):
        pipeline.run()


def test_pipeline_with_sink_requires_stable_input_of_its_commits() -> None:
    pipeline = beam.Pipeline()
    pipeline | beam.Create([{}]) | WriteFilesExactlyOnce("/folder", "csv")
    proto = pipeline.to_runner_api()
    assert STABLE_INPUT in proto.requirements
    stable = [
        one.unique_name.rpartition("/")[2]
        for one in proto.components.transforms.values()
        if one.spec.urn == common_urns.primitives.PAR_DO.urn
        and beam_runner_api_pb2.ParDoPayload.FromString(one.spec.payload).requires_stable_input
    ]
    assert stable == ["Commit"]


@pytest.mark.parametrize("runner", [FnApiRunner, DirectRunner])
def test_other_runner_refuses_a_sink_by_the_requirement(
    tmp_path: Path, runner: type[PipelineRunner]
) -> None:
    pipeline = beam.Pipeline(runner=runner())
    pipeline | beam.Create([{"a": 1}]) | WriteFilesExactlyOnce(str(tmp_path), "csv")
    with pytest.raises(Exception, match=STABLE_INPUT):
        pipeline.run().wait_until_finish()
    assert list(tmp_path.iterdir()) == []
