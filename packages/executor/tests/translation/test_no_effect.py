"""What has no effect is told by name, and defaults that nobody asked for are not."""

from __future__ import annotations

import json
from typing import Any

import apache_beam as beam
import attrs
import pytest
import samples
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from google.protobuf import json_format

from beam_spark_executor.translation.no_effect import without_effect


def told(*flags: str, build: samples.Build = samples.map_only) -> str:
    """What a job that Beam's client submits with these flags is told."""
    every = PipelineOptions([*samples.EMBEDDED, *flags]).get_all_options(
        retain_unknown_options=True
    )
    sent = JobServiceHandle.encode_pipeline_options(every)
    options: dict[str, Any] = json.loads(json_format.MessageToJson(sent))
    return without_effect(attrs.evolve(samples.job_of(samples.built(build)), options=options))


def test_defaults_are_not_told() -> None:
    assert told() == ""
    assert told("--experiments=use_loopback_process_worker", "--experiments=of_my_own") == ""


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--sdk_worker_parallelism=4", "--sdk_worker_parallelism=4"),
        ("--update", "--update=True"),
        ("--spark_master_url=spark://host:7077", "--spark_master_url=spark://host:7077"),
        (
            "--experiments=use_loopback_proces_worker",
            "'use_loopback_proces_worker' (is 'use_loopback_process_worker' meant?)",
        ),
    ],
)
def test_options_without_effect(flag: str, text: str) -> None:
    assert text in told(flag)


def hinted(p: beam.Pipeline) -> None:
    p | beam.Create([1]) | beam.Map(str).with_resource_hints(min_ram="8GB")


def test_resource_hints() -> None:
    assert "beam:resources:min_ram_bytes:v1" in told(build=hinted)
