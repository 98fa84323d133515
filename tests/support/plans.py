"""Plans of pipelines whose user code runs in the interpreter of the test."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.portable_runner import PortableRunner
from beam_runner_model.jobs import JobSpec
from beam_runner_planner.plan import JobPlan
from beam_runner_planner.translate import plan_job

Build = Callable[[beam.Pipeline], Any]
_EMBEDDED = ("--environment_type=beam:env:embedded_python:v1",)


@functools.cache
def make_plan(build: Build, pool: str = "") -> JobPlan:
    """Returns the plan of a pipeline, cached.

    Args:
        build: function that makes the pipeline.
        pool: address of the pool whose workers run user code; without an address, user code is
            embedded.
    """
    external = ("--environment_type=EXTERNAL", f"--environment_config={pool}")
    options = PipelineOptions([*(external if pool else _EMBEDDED), "--allow_unsafe_triggers"])
    pipeline = beam.Pipeline(options=options)
    build(pipeline)
    proto = PortableRunner.get_proto_pipeline(pipeline, options)
    for environment in proto.components.environments.values():
        del environment.dependencies[:]
    return plan_job(JobSpec("job-1", "name", proto.SerializeToString(), {}, "{}", {}, "host:1"))
