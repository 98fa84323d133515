"""Plans of pipelines whose user code runs in the interpreter that makes them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.portable_runner import PortableRunner
from beam_runner_jobservices.records import JobSpec
from beam_spark_executor.plan import JobPlan
from beam_spark_executor.translation.translate import translate

Build = Callable[[beam.Pipeline], Any]
_FLAGS = ["--environment_type=beam:env:embedded_python:v1", "--allow_unsafe_triggers"]


@functools.cache
def plan_of(build: Build) -> JobPlan:
    """The plan of a pipeline, made once."""
    options = PipelineOptions(_FLAGS)
    pipeline = beam.Pipeline(options=options)
    build(pipeline)
    proto = PortableRunner.get_proto_pipeline(pipeline, options)
    for environment in proto.components.environments.values():
        del environment.dependencies[:]
    return translate(JobSpec("job-1", "name", proto.SerializeToString(), {}, "{}", {}, "host:1"))
