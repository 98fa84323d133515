from __future__ import annotations

from unittest.mock import Mock

import apache_beam as beam
import pytest
from apache_beam.runners.interactive.interactive_runner import InteractiveRunner
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.testing.test_stream import ReverseTestStream

from beam_spark_executor.client import runner as runner_module
from beam_spark_executor.client.recording import is_stream_recording
from beam_spark_executor.client.runner import BeamSparkRunner


def built(runner: BeamSparkRunner, *, recorded: bool) -> beam.Pipeline:
    pipeline = beam.Pipeline(runner=runner)
    numbers = pipeline | beam.Create([1])
    if recorded:
        _ = numbers | ReverseTestStream(1.0, "numbers")
    return pipeline


@pytest.mark.parametrize("recorded", [True, False])
def test_stream_recording_is_distinguished_from_other_pipelines(recorded: bool) -> None:
    assert is_stream_recording(built(BeamSparkRunner(), recorded=recorded)) is recorded


@pytest.mark.parametrize("recorded", [True, False])
def test_notebook_runs_stream_recordings_in_process_and_other_pipelines_on_spark(
    recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, on_spark = Mock(), Mock()
    monkeypatch.setattr(runner_module, "DirectRunner", here)
    monkeypatch.setattr(PortableRunner, "run_pipeline", on_spark)
    runner = BeamSparkRunner()
    InteractiveRunner(underlying_runner=runner)
    built(runner, recorded=recorded).run()
    assert (here.return_value.run_pipeline.called, on_spark.called) == (recorded, not recorded)
