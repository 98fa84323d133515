"""Counts words: ParDo, a lifted combine, and a text file as output."""

from __future__ import annotations

import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

TEXT = ["to be or not to be", "that is the question"]


def main(output: str, *options: str) -> None:
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        (
            pipeline
            | "Lines" >> beam.Create(TEXT)
            | "Words" >> beam.FlatMap(str.split)
            | "Count" >> beam.combiners.Count.PerElement()
            | "Format" >> beam.MapTuple(lambda word, count: f"{word} {count}")
            | "Write" >> beam.io.WriteToText(output)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
