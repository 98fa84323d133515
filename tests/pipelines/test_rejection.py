"""Tests that the request `Run` refuses unsupported features with the names of feature and transform."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.test_stream import WatermarkEvent
from jobs import Pipelines


def script_of_a_service_that_is_away(p: beam.Pipeline) -> None:
    p | "Script" >> Stream(endpoint="localhost:1")


def script_that_sets_time_back(p: beam.Pipeline) -> None:
    script = Stream().advance_watermark_to(10)
    script._events.append(WatermarkEvent(5))
    p | "Script" >> script


no_docker = pytest.mark.skipif(
    shutil.which("docker") is not None, reason="docker is here, so that images are not refused"
)


UNSUPPORTED: dict[Callable[[beam.Pipeline], None], tuple[str, str]] = {
    script_of_a_service_that_is_away: (
        "a TestStream whose service at 'localhost:1' failed before it sent all events",
        "Script",
    ),
    script_that_sets_time_back: ("a TestStream that moves its watermark back", "Script"),
}


@pytest.mark.parametrize("build", UNSUPPORTED, ids=lambda build: build.__name__)
def test_unsupported_feature_is_refused_by_name(
    pipelines: Pipelines, build: Callable[[beam.Pipeline], None]
) -> None:
    feature, transform = UNSUPPORTED[build]
    pipeline = pipelines.new()
    build(pipeline)
    with pytest.raises(Exception) as raised:
        pipeline.run()
    text = str(raised.value)
    assert "UNIMPLEMENTED" in text
    assert feature in text
    assert transform in text


@no_docker
def test_several_unsupported_features_are_all_named(embedded: Pipelines) -> None:
    pipeline = embedded.new(
        "--environment_type=DOCKER", "--environment_config=example.com/my-image:1"
    )
    script_that_sets_time_back(pipeline)
    pipeline | beam.Create([1]) | "Mapped" >> beam.Map(str)
    both = r"(?s)TestStream.*Script.*docker image 'example.com/my-image:1'"
    with pytest.raises(Exception, match=both):
        pipeline.run()
