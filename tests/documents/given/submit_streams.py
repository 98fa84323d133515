"""Submits an endless stream with each of the given names."""

from __future__ import annotations

import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse

for name in sys.argv[1:]:
    flags = ["--job_endpoint=localhost:8099", f"--job_name={name}", "--streaming"]
    pipeline = beam.Pipeline("beam_spark_executor.BeamSparkRunner", PipelineOptions(flags))
    _ = pipeline | PeriodicImpulse(fire_interval=0.5) | beam.Map(print)
    pipeline.run()
