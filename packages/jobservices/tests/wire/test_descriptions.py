from __future__ import annotations

import apache_beam as beam
import pytest
from apache_beam.transforms import window

from beam_runner_jobservices._protos import beam_runner_api_pb2 as runner_api
from beam_runner_jobservices.errors import InvalidRequest
from beam_runner_jobservices.wire.descriptions import describe_pipeline

from ..fakes import pipeline_proto


def test_pipeline_of_python_sdk_is_described() -> None:
    pipeline = beam.Pipeline()
    side = pipeline | "Side" >> beam.Create([1])
    (
        pipeline
        | "Main" >> beam.Create(["a"])
        | "Window" >> beam.WindowInto(window.FixedWindows(5))
        | "Use" >> beam.Map(lambda a, b: (a, b), beam.pvalue.AsSingleton(side))
    )
    found = describe_pipeline(pipeline.to_runner_api().SerializeToString())
    steps = {step.name: step for step in found.steps.values()}
    assert steps["Use"].side_inputs == {"python_side_input0"}
    assert len(steps["Use"].inputs) == 2
    assert ("Transform Function", "<lambda>") in steps["Use"].display
    part = steps["Main/Impulse"]
    assert found.steps[part.parent].name == "Main"
    (output,) = steps["Use"].outputs.values()
    assert found.pcollections[output].windows == "fixed windows of 5 s"
    assert found.pcollections[output].bounded


def test_environment_description_names_location_of_code() -> None:
    pipeline = pipeline_proto()
    image = pipeline.components.environments["python"]
    image.payload = runner_api.DockerPayload(container_image="mine:1").SerializeToString()
    pool = pipeline.components.environments["pool"]
    pool.urn = "beam:env:external:v1"
    pool.payload = b"\xff"
    found = describe_pipeline(pipeline.SerializeToString()).environments
    assert (found["python"].details, found["pool"].details) == ("mine:1", "")


def test_invalid_pipeline_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        describe_pipeline(b"\xff\xff")
