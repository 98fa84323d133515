"""Tests of the names of steps in options."""

from __future__ import annotations

import apache_beam as beam
import pytest

from beam_runner_planner.errors import InvalidPipeline
from beam_runner_planner.step_names import check_step_names, is_step_named


def _build(step: str) -> bytes:
    pipeline = beam.Pipeline()
    _ = pipeline | step >> beam.Create([1])
    return bytes(pipeline.to_runner_api().SerializeToString())


def test_step_name_that_no_pipeline_has_is_refused_with_the_nearest_name() -> None:
    pipelines = [_build("Source"), _build("Queue")]
    check_step_names(pipelines, ("Queue", "Source", "Source/Impulse"), "skip")
    with pytest.raises(InvalidPipeline, match=r"--skip is 'Qeue'.* did you mean 'Queue'"):
        check_step_names(pipelines, ("Queue", "Qeue"), "skip")
    with pytest.raises(InvalidPipeline, match="expected the full name"):
        check_step_names(pipelines, ("another",), "skip")


def test_names_of_composites_name_their_steps() -> None:
    assert is_step_named("Read/Parse", ("Write", "Read"))
    assert not is_step_named("Reading/Parse", ("Write", "Read"))
