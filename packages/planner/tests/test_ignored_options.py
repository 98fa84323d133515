"""Tests that options without effect are reported by name, and defaults aren't."""

from __future__ import annotations

import json
import time
from typing import Any

import apache_beam as beam
import attrs
import pytest
import samples
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from google.protobuf import json_format

from beam_runner_planner.ignored_options import describe_ignored_options


def told(*flags: str, build: samples.Build = samples.map_only) -> str:
    """Returns the report for a job that Beam's client submits with these flags."""
    every = PipelineOptions([*samples.EMBEDDED, *flags]).get_all_options(
        retain_unknown_options=True
    )
    sent = JobServiceHandle.encode_pipeline_options(every)
    options: dict[str, Any] = json.loads(json_format.MessageToJson(sent))
    return describe_ignored_options(
        attrs.evolve(samples.job_of(samples.built(build)), options=options)
    )


def test_default_options_are_not_reported() -> None:
    assert told() == ""
    assert told("--experiments=use_loopback_process_worker", "--experiments=of_my_own") == ""


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--sdk_worker_parallelism=4", "--sdk_worker_parallelism=4"),
        ("--max_cache_memory_usage_mb=100", "--max_cache_memory_usage_mb=100"),
        ("--profile_cpu", "--profile_cpu=True (set --environment_type=PROCESS or"),
        ("--profile_memory", "--profile_memory=True (set --environment_type=PROCESS or"),
        ("--flink_master=localhost:8081", "--flink_master=localhost:8081"),
        ("--direct_num_workers=4", "--direct_num_workers=4"),
        ("--worker_zone=europe-west1-b", "--worker_zone=europe-west1-b"),
        ("--spark_master_url=spark://host:7077", "--spark_master_url=spark://host:7077"),
        (
            "--experiments=use_loopback_proces_worker",
            "'use_loopback_proces_worker' (did you mean 'use_loopback_process_worker'?)",
        ),
    ],
)
def test_options_without_effect_are_reported(flag: str, text: str) -> None:
    assert text in told(flag)


def test_options_of_external_harness_are_not_reported_if_job_has_external_harness() -> None:
    assert told("--environment_type=PROCESS", "--profile_cpu", "--profile_location=/tmp") == ""


def test_environment_variables_are_reported_if_the_environment_does_not_inherit_them() -> None:
    assert "--beam_spark_env" in told("--environment_type=DOCKER", "--beam_spark_env=A=1")
    assert told("--environment_type=PROCESS", "--beam_spark_env=A=1") == ""


def test_options_with_effect_are_not_reported() -> None:
    assert (
        told("--project=mine", "--temp_location=gs://mine", "--s3_region_name=eu", "--mine=7") == ""
    )
    assert (
        told("--update", '--transform_name_mapping={"a": "b"}', "--beam_spark_update=check") == ""
    )


@pytest.mark.parametrize("value", [-1, -1.0, "-1"])
def test_default_option_value_in_any_form_is_not_reported(value: object) -> None:
    job = samples.job_of(samples.built(samples.map_only))
    options = {"beam:option:parallelism:v1": value}
    assert describe_ignored_options(attrs.evolve(job, options=options)) == ""


def hinted(p: beam.Pipeline) -> None:
    few = p | beam.Create([1]).with_resource_hints(min_ram="8GB", cpu_count="2")
    few | beam.Map(str).with_resource_hints(accelerator="type:nvidia-l4;count:1", min_ram="9GB")


def test_ignored_resource_hints_are_reported_with_alternative() -> None:
    said = told(build=hinted)
    assert "min_ram=8000000000 (set spark.executor.memory" in said
    assert "min_ram=9000000000 " in said
    assert "cpu_count=2 (set spark.task.cpus of Spark instead, for all jobs of the server)" in said
    assert "accelerator=type:nvidia-l4;count:1 (" in said


def one_at_a_time(p: beam.Pipeline) -> None:
    p | beam.Create([1]) | beam.Map(str).with_resource_hints(max_active_bundles_per_worker="1")


def test_ignored_bundle_limit_per_worker_is_reported_only_for_external_workers() -> None:
    assert told(build=one_at_a_time) == ""
    pool = ("--environment_type=EXTERNAL", "--environment_config=localhost:1")
    job = samples.job_of(samples.built(one_at_a_time, *pool))
    assert "max_active_bundles_per_worker:v1=1" in describe_ignored_options(
        attrs.evolve(job, options={})
    )


def test_job_with_many_ineffective_options_gets_short_report() -> None:
    job = samples.job_of(samples.built(samples.map_only))
    many = [f"enable_data_samplin{number}" for number in range(200_000)]
    options = {"experiments": many, "num_workers": "9" * 10_000_000}
    began = time.thread_time()
    text = describe_ignored_options(attrs.evolve(job, options=options))
    assert time.thread_time() - began < 1
    assert "enable_data_samplin0" in text and "--num_workers=9" in text
    assert len(text) < 20_000
