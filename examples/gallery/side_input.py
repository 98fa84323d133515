"""Looks up prices in a side input: a dictionary that another branch of the pipeline computes."""

from __future__ import annotations

import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsDict


def main(output: str, *options: str) -> None:
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        prices = pipeline | "Prices" >> beam.Create([("apple", 3), ("pear", 4)])
        (
            pipeline
            | "Sales" >> beam.Create([("apple", 2), ("pear", 1), ("apple", 1)])
            | "Pay"
            >> beam.Map(lambda sale, prices: (sale[0], sale[1] * prices[sale[0]]), AsDict(prices))
            | "Sum" >> beam.CombinePerKey(sum)
            | "Format" >> beam.MapTuple(lambda fruit, total: f"{fruit} {total}")
            | "Write" >> beam.io.WriteToText(output)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
