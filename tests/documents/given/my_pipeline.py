"""A pipeline of a user, which documents refer to."""

from __future__ import annotations

import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

if __name__ == "__main__":
    with beam.Pipeline(options=PipelineOptions(sys.argv[1:])) as pipeline:
        (
            pipeline
            | beam.Create(["to be or not to be"])
            | beam.FlatMap(str.split)
            | beam.combiners.Count.PerElement()
            | beam.MapTuple(lambda word, count: f"{word} {count}")
            | beam.io.WriteToText("words")
        )
